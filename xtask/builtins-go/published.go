package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var stable = regexp.MustCompile(`^v[0-9]+$`)

// unstable has the resources without a stable version that can be enabled, by group version.
var unstable = map[string][]string{
	"certificates.k8s.io/v1beta1":     {"clustertrustbundles", "podcertificaterequests"},
	"coordination.k8s.io/v1beta1":     {"leasecandidates"},
	"resource.k8s.io/v1beta2":         {"devicetaintrules"},
	"scheduling.k8s.io/v1alpha2":      {"podgroups", "workloads"},
	"storagemigration.k8s.io/v1beta1": {"storageversionmigrations"},
}

// Schema is the part of a published OpenAPI v3 schema that Go types lack.
type Schema struct {
	Required   []string            `json:"required"`
	MapType    string              `json:"x-kubernetes-map-type"`
	Properties map[string]Property `json:"properties"`
}

// Property is a property of a Schema.
type Property struct {
	Default  json.RawMessage `json:"default"`
	Format   string          `json:"format"`
	ListType string          `json:"x-kubernetes-list-type"`
	MapKeys  []string        `json:"x-kubernetes-list-map-keys"`
	MapType  string          `json:"x-kubernetes-map-type"`
}

// Path is the part of a published path that discovery lacks: the response of a deletion.
type Path struct {
	Delete struct {
		Action    string                  `json:"x-kubernetes-action"`
		Kind      metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		Responses map[string]struct {
			Content map[string]struct {
				Schema struct {
					Ref string `json:"$ref"`
				} `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"delete"`
}

func (p *Path) deletionReturnsObject() bool {
	answer := p.Delete.Responses["200"].Content["application/json"].Schema.Ref
	return p.Delete.Action == "delete" && !strings.HasSuffix(answer, ".meta.v1.Status")
}

// readSchemas returns every schema of the OpenAPI v3 documents by name, and the kinds whose deletion returns the
// object.
func readSchemas(module string) (map[string]Schema, map[metav1.GroupVersionKind]bool, error) {
	paths, err := filepath.Glob(filepath.Join(module, "api/openapi-spec/v3/*_openapi.json"))
	if err != nil {
		return nil, nil, err
	}
	schemas, deletions := map[string]Schema{}, map[metav1.GroupVersionKind]bool{}
	for _, path := range paths {
		var document struct {
			Paths      map[string]Path `json:"paths"`
			Components struct {
				Schemas map[string]Schema `json:"schemas"`
			} `json:"components"`
		}
		if err := readJSON(path, &document); err != nil {
			return nil, nil, err
		}
		for _, path := range document.Paths {
			if path.deletionReturnsObject() {
				deletions[path.Delete.Kind] = true
			}
		}
		for name, schema := range document.Components.Schemas {
			schemas[name] = schema
		}
	}
	if len(schemas) == 0 {
		return nil, nil, fmt.Errorf("no OpenAPI documents under %s", module)
	}
	return schemas, deletions, nil
}

// readDiscovery returns the groups with their stable versions and the resources of those, or what is in unstable.
func readDiscovery(module string, isUnstable bool) ([]Group, []Resource, error) {
	folder := filepath.Join(module, "api/discovery")
	var list metav1.APIGroupList
	if err := readJSON(filepath.Join(folder, "apis.json"), &list); err != nil {
		return nil, nil, err
	}
	var groups []Group
	if !isUnstable {
		groups = append(groups, Group{Name: "", Versions: []string{"v1"}})
	}
	for _, published := range list.Groups {
		group := Group{Name: published.Name}
		for _, version := range published.Versions {
			_, isListed := unstable[version.GroupVersion]
			if isUnstable && isListed || !isUnstable && stable.MatchString(version.Version) {
				group.Versions = append(group.Versions, version.Version)
			}
		}
		if len(group.Versions) > 0 {
			groups = append(groups, group)
		}
	}
	var resources []Resource
	for _, group := range groups {
		for _, version := range group.Versions {
			name := "apis__" + group.Name + "__" + version + ".json"
			if group.Name == "" {
				name = "api__" + version + ".json"
			}
			var published metav1.APIResourceList
			if err := readJSON(filepath.Join(folder, name), &published); err != nil {
				return nil, nil, err
			}
			of, err := resourcesOf(group.Name, version, published.APIResources)
			if err != nil {
				return nil, nil, err
			}
			if isUnstable {
				listed := unstable[group.Name+"/"+version]
				of = slices.DeleteFunc(of, func(have Resource) bool { return !slices.Contains(listed, have.Plural) })
			}
			resources = append(resources, of...)
		}
	}
	return groups, resources, nil
}

func resourcesOf(group, version string, published []metav1.APIResource) ([]Resource, error) {
	var resources []Resource
	for _, entry := range published {
		plural, subresource, nested := strings.Cut(entry.Name, "/")
		if !nested {
			resources = append(resources, Resource{
				Group: group, Version: version, Plural: plural, Singular: entry.SingularName, Kind: entry.Kind,
				ShortNames: entry.ShortNames, Categories: entry.Categories, Namespaced: entry.Namespaced,
				Verbs: entry.Verbs, StorageVersionHash: entry.StorageVersionHash,
			})
			continue
		}
		parent := slices.IndexFunc(resources, func(have Resource) bool { return have.Plural == plural })
		if parent < 0 {
			return nil, fmt.Errorf("%s/%s lists %s before its resource", group, version, entry.Name)
		}
		resources[parent].Subresources = append(resources[parent].Subresources, Subresource{
			Name: subresource, Group: entry.Group, Version: entry.Version, Kind: entry.Kind, Verbs: entry.Verbs,
		})
	}
	return resources, nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
