package main

import "encoding/json"

// Table is the output. Its shape is read by xtask/src/builtins/read.rs.
type Table struct {
	Structs   []*Struct  `json:"structs"`
	Kinds     []Kind     `json:"kinds"`
	Groups    []Group    `json:"groups"`
	Resources []Resource `json:"resources"`
}

// Struct is a Go struct with its embedded structs flattened.
type Struct struct {
	Name    string   `json:"name"`
	GoName  string   `json:"goName"`
	Atomic  bool     `json:"atomic,omitempty"`
	Inlines []Inline `json:"inlines,omitempty"`
	Fields  []Field  `json:"fields"`
}

// Inline says that the fields Start..End are a message of their own in protobuf.
type Inline struct {
	Proto int `json:"proto"`
	Start int `json:"start"`
	End   int `json:"end"`
}

// Field is a field of a struct.
type Field struct {
	Name       string          `json:"name"`
	Type       Type            `json:"type"`
	GoType     string          `json:"goType"`
	Proto      int             `json:"proto,omitempty"`
	OmitEmpty  bool            `json:"omitEmpty,omitempty"`
	Pointer    bool            `json:"pointer,omitempty"`
	Required   bool            `json:"required,omitempty"`
	Default    json.RawMessage `json:"default,omitempty"`
	ListType   string          `json:"listType,omitempty"`
	MapKeys    []string        `json:"mapKeys,omitempty"`
	MapType    string          `json:"mapType,omitempty"`
	Merge      bool            `json:"merge,omitempty"`
	RetainKeys bool            `json:"retainKeys,omitempty"`
	Replace    bool            `json:"replace,omitempty"`
	MergeKey   string          `json:"mergeKey,omitempty"`
	Format     string          `json:"format,omitempty"`
}

// Type has exactly one of its fields set.
type Type struct {
	Struct *int   `json:"struct,omitempty"`
	List   *Type  `json:"list,omitempty"`
	Map    *Type  `json:"map,omitempty"`
	Scalar string `json:"scalar,omitempty"`
}

// Kind names the struct of a group, version and kind.
type Kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Struct  int    `json:"struct"`
}

// Group is an API group and its stable versions, the preferred one first.
type Group struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
}

// Resource is an entry of a group version's resource list.
type Resource struct {
	Group                 string        `json:"group"`
	Version               string        `json:"version"`
	Plural                string        `json:"plural"`
	Singular              string        `json:"singular"`
	Kind                  string        `json:"kind"`
	ShortNames            []string      `json:"shortNames,omitempty"`
	Categories            []string      `json:"categories,omitempty"`
	Namespaced            bool          `json:"namespaced,omitempty"`
	Verbs                 []string      `json:"verbs"`
	StorageVersionHash    string        `json:"storageVersionHash,omitempty"`
	DeletionReturnsObject bool          `json:"deletionReturnsObject,omitempty"`
	Struct                int           `json:"struct"`
	Subresources          []Subresource `json:"subresources,omitempty"`
}

// Subresource is an entry such as pods/eviction.
type Subresource struct {
	Name    string   `json:"name"`
	Group   string   `json:"group,omitempty"`
	Version string   `json:"version,omitempty"`
	Kind    string   `json:"kind"`
	Verbs   []string `json:"verbs"`
	Struct  *int     `json:"struct,omitempty"`
}
