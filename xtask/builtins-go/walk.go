package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types whose JSON form differs from their fields.
var scalars = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():                            "quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "intOrString",
	reflect.TypeFor[metav1.Time]():                                  "time",
	reflect.TypeFor[metav1.MicroTime]():                             "microTime",
	reflect.TypeFor[metav1.Duration]():                              "duration",
	reflect.TypeFor[runtime.RawExtension]():                         "rawExtension",
	reflect.TypeFor[metav1.FieldsV1]():                              "fieldsV1",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "json",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "json",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "json",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "json",
}

// walk numbers struct types in the order of their discovery.
type walk struct {
	schemas map[string]Schema
	numbers map[reflect.Type]int
	structs []*Struct
}

func newWalk(schemas map[string]Schema) *walk {
	return &walk{schemas: schemas, numbers: map[reflect.Type]int{}}
}

// table fills in the structs of the resources and describes all structs they reach.
func (w *walk) table(groups []Group, resources []Resource, withBodies bool) (*Table, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	kinds := newKinds(w, scheme)
	for i := range resources {
		if err := kinds.resource(&resources[i]); err != nil {
			return nil, err
		}
	}
	if withBodies {
		if err := kinds.bodies(); err != nil {
			return nil, err
		}
	}
	return &Table{Structs: w.structs, Kinds: kinds.list, Groups: groups, Resources: resources}, nil
}

// number returns the number of a struct, and describes the struct on first use.
func (w *walk) number(t reflect.Type) (int, error) {
	if number, ok := w.numbers[t]; ok {
		return number, nil
	}
	number := len(w.structs)
	w.numbers[t] = number
	described := &Struct{Name: modelName(t), GoName: t.Name(), Fields: []Field{}}
	w.structs = append(w.structs, described)
	schema := w.schemas[described.Name]
	described.Atomic = schema.MapType == "atomic"
	if err := w.fields(described, t, schema, true); err != nil {
		return 0, fmt.Errorf("%s: %w", t, err)
	}
	return number, nil
}

// fields appends the fields of t, those of embedded structs in their place. Without inMessage they have no protobuf form.
func (w *walk) fields(into *Struct, t reflect.Type, schema Schema, inMessage bool) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		proto, err := protoNumber(field)
		if err != nil {
			return err
		}
		if name == "" {
			if !field.Anonymous || field.Type.Kind() != reflect.Struct {
				return fmt.Errorf("field %s has no JSON name", field.Name)
			}
			start, place := len(into.Fields), len(into.Inlines)
			if proto > 0 {
				into.Inlines = append(into.Inlines, Inline{Proto: proto, Start: start})
			}
			if err := w.fields(into, field.Type, schema, inMessage && proto > 0); err != nil {
				return err
			}
			if proto > 0 {
				into.Inlines[place].End = len(into.Fields)
			}
			continue
		}
		if !inMessage {
			proto = 0
		}
		described, err := w.field(field, name, options, schema)
		if err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
		described.Proto = proto
		into.Fields = append(into.Fields, described)
	}
	return nil
}

func (w *walk) field(field reflect.StructField, name, options string, schema Schema) (Field, error) {
	t, pointer := field.Type, field.Type.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	typ, err := w.typ(t)
	if err != nil {
		return Field{}, err
	}
	flags := strings.Split(options, ",")
	omitEmpty := slices.Contains(flags, "omitempty") && (pointer || t.Kind() != reflect.Struct)
	property := schema.Properties[name]
	strategies := strings.Split(field.Tag.Get("patchStrategy"), ",")
	for _, strategy := range strategies {
		if !slices.Contains([]string{"", "merge", "retainKeys", "replace"}, strategy) {
			return Field{}, fmt.Errorf("unknown patch strategy %q", strategy)
		}
	}
	return Field{
		Name: name, Type: typ, GoType: t.String(), Pointer: pointer,
		OmitEmpty: omitEmpty || slices.Contains(flags, "omitzero"),
		Required:  slices.Contains(schema.Required, name),
		Default:   property.Default, Format: property.Format,
		ListType: property.ListType, MapKeys: property.MapKeys, MapType: property.MapType,
		Merge:      slices.Contains(strategies, "merge"),
		RetainKeys: slices.Contains(strategies, "retainKeys"),
		Replace:    slices.Contains(strategies, "replace"),
		MergeKey:   field.Tag.Get("patchMergeKey"),
	}, nil
}

func (w *walk) typ(t reflect.Type) (Type, error) {
	if scalar, ok := scalars[t]; ok {
		return Type{Scalar: scalar}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.typ(t.Elem())
	case reflect.String:
		return Type{Scalar: "string"}, nil
	case reflect.Bool:
		return Type{Scalar: "bool"}, nil
	case reflect.Int32:
		return Type{Scalar: "int32"}, nil
	case reflect.Int64:
		return Type{Scalar: "int64"}, nil
	case reflect.Float64:
		return Type{Scalar: "float64"}, nil
	case reflect.Struct:
		number, err := w.number(t)
		return Type{Struct: &number}, err
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return Type{Scalar: "bytes"}, nil
		}
		element, err := w.typ(t.Elem())
		return Type{List: &element}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return Type{}, fmt.Errorf("a map from %s", t.Key())
		}
		element, err := w.typ(t.Elem())
		return Type{Map: &element}, err
	default:
		return Type{}, fmt.Errorf("no form for Go type %s", t)
	}
}

// protoNumber returns the number in a tag such as `protobuf:"bytes,2,opt,name=spec"`; 0 without one.
func protoNumber(field reflect.StructField) (int, error) {
	tag := field.Tag.Get("protobuf")
	if tag == "" || tag == "-" {
		return 0, nil
	}
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return 0, fmt.Errorf("field %s: protobuf tag %q", field.Name, tag)
	}
	return strconv.Atoi(parts[1])
}

// modelName returns the name of the OpenAPI definition.
func modelName(t reflect.Type) string {
	if named, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}
