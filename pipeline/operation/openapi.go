package operation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// OpenAPI returns the OpenAPI 3.1 document of the operations that have a route.
func OpenAPI(version string, all []Operation) json.RawMessage {
	paths := map[string]map[string]members{}
	for _, o := range all {
		method, path, ok := strings.Cut(o.Route, " ")
		if !ok {
			continue
		}
		if paths[path] == nil {
			paths[path] = map[string]members{}
		}
		paths[path][strings.ToLower(method)] = o.described(method)
	}
	ordered := members{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		ordered = append(ordered, member{path, paths[path]})
	}
	fault := members{{"type", "object"}, {"properties", members{
		{"error", members{{"type", "string"}, {"description", "What was refused or failed."}}},
		{"hint", members{{"type", "string"}, {"description", "The remedy."}}},
	}}, {"required", []string{"error"}}}
	return raw(members{
		{"openapi", "3.1.0"},
		{"info", members{{"title", "sandboxmcp"}, {"version", version}}},
		{"security", []members{{{"token", []string{}}}}},
		{"paths", ordered},
		{"components", members{
			{"securitySchemes", members{{"token", members{{"type", "http"}, {"scheme", "bearer"}}}}},
			{"schemas", members{{"Fault", fault}}},
		}},
	})
}

// described returns the description of an operation for the document.
func (o Operation) described(method string) members {
	path := inPath(o.Route)
	inBody, parameters := Form{of: o.In.of}, []members{}
	for _, f := range o.In.fields {
		place := "query"
		switch {
		case f.hidden:
			continue
		case slices.Contains(path, f.name):
			place = "path"
		case !hasQueryArguments(method, o.Content):
			inBody.fields = append(inBody.fields, f)
			continue
		}
		parameters = append(parameters, members{{"name", f.name}, {"in", place}, {"required", place == "path" || f.required},
			{"description", f.about}, {"schema", f.schema()}})
	}
	kind, about := "application/json", "The result."
	if o.Stream {
		kind, about = "application/x-ndjson", "A stream with one result per line or, with Accept: text/event-stream, per event."
	}
	result, binary := members{{"schema", o.Out}}, members{{"schema", members{{"type", "string"}, {"format", "binary"}}}}
	if o.Content != "" && method == "GET" {
		kind, about, result = o.Content, "The content, followed by its Content-Digest.", binary
	}
	m := members{{"operationId", o.Name}, {"description", o.About}, {"parameters", parameters}}
	if o.Title != "" {
		m = append(m, member{"summary", o.Title})
	}
	if len(inBody.fields) > 0 {
		m = append(m, member{"requestBody", members{{"required", true},
			{"content", members{{"application/json", members{{"schema", inBody.schema()}}}}}}})
	}
	if o.Content != "" && method != "GET" {
		m = append(m, member{"requestBody", members{{"required", true}, {"content", members{{o.Content, binary}}}}})
	}
	return append(m, member{"responses", members{
		{"200", members{{"description", about}, {"content", members{{kind, result}}}}},
		{"default", members{{"description", "It was refused or failed."}, {"content", members{{"application/json",
			members{{"schema", members{{"$ref", "#/components/schemas/Fault"}}}}}}}}},
	}})
}
