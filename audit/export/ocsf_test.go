package export

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// always is what version 1.8.0 of the schema requires of the events of all classes.
var always = []string{"activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"}

// classes is what it says about those that are used: what else is required, of what one must be there
// at least, and the numbers of the activities.
var classes = map[int]struct {
	name       string
	category   int
	required   []string
	oneOf      []string
	activities map[int]string
}{
	1007: {"Process Activity", 1, []string{"actor", "device", "process"}, nil, map[int]string{1: "Launch", 2: "Terminate", 99: "Other"}},
	3004: {"Entity Management", 3, []string{"entity"}, nil,
		map[int]string{1: "Create", 2: "Read", 3: "Update", 4: "Delete", 10: "Activate", 11: "Deactivate", 99: "Other"}},
	4001: {"Network Activity", 4, nil, []string{"dst_endpoint", "src_endpoint"}, map[int]string{1: "Open", 4: "Fail", 5: "Refuse"}},
	4003: {"DNS Activity", 4, nil, []string{"dst_endpoint", "src_endpoint"}, map[int]string{6: "Traffic"}},
	6002: {"Application Lifecycle", 6, []string{"app"}, nil, map[int]string{1: "Install"}},
	6003: {"API Activity", 6, []string{"actor", "api", "src_endpoint"}, nil, map[int]string{1: "Create", 2: "Read", 3: "Update", 4: "Delete", 99: "Other"}},
}

// objects is the same for the values of attributes.
var objects = map[string]struct{ required, oneOf []string }{
	"metadata":        {required: []string{"product", "version"}},
	"product":         {oneOf: []string{"name", "uid"}},
	"app":             {oneOf: []string{"name", "uid"}},
	"actor":           {oneOf: []string{"process", "user", "app_name", "app_uid", "session"}},
	"user":            {oneOf: []string{"account", "name", "uid"}},
	"device":          {[]string{"type_id"}, []string{"ip", "uid", "name", "hostname"}},
	"process":         {oneOf: []string{"pid", "uid", "cpid"}},
	"src_endpoint":    {oneOf: []string{"ip", "uid", "name", "hostname"}},
	"dst_endpoint":    {oneOf: []string{"ip", "uid", "name", "hostname"}},
	"entity":          {oneOf: []string{"name", "uid"}},
	"api":             {required: []string{"operation"}},
	"service":         {oneOf: []string{"name", "uid"}},
	"query":           {required: []string{"hostname"}},
	"connection_info": {required: []string{"direction_id"}},
	"resources":       {oneOf: []string{"name", "uid"}},
	"session":         {}, "traffic": {}, "unmapped": {},
}

// lacks says what required attributes are not in an event, and what objects are not in the table above.
func lacks(e map[string]any) (missing []string) {
	class, ok := classes[int(number(e["class_uid"]))]
	if !ok {
		return []string{fmt.Sprintf("class %v is not known", e["class_uid"])}
	}
	missing = absent(e, slices.Concat(always, class.required), class.oneOf)
	return append(missing, inside(e)...)
}

func inside(object map[string]any) (missing []string) {
	for key, value := range object {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, one := range list {
			inner, ok := one.(map[string]any)
			if !ok {
				continue
			}
			rule, ok := objects[key]
			if !ok {
				missing = append(missing, key+" is not known")
			}
			for _, name := range absent(inner, rule.required, rule.oneOf) {
				missing = append(missing, key+"."+name)
			}
			if key != "unmapped" {
				missing = append(missing, inside(inner)...)
			}
		}
	}
	return missing
}

func absent(object map[string]any, required, oneOf []string) (missing []string) {
	has := func(name string) bool { v, ok := object[name]; return ok && v != "" && v != nil }
	for _, name := range required {
		if !has(name) {
			missing = append(missing, name)
		}
	}
	if len(oneOf) > 0 && !slices.ContainsFunc(oneOf, has) {
		missing = append(missing, "one of "+strings.Join(oneOf, ", "))
	}
	return missing
}

func number(v any) float64 { n, _ := v.(float64); return n }

func events(t *testing.T, rows []audit.Row) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(exported(t, "ocsf", rows)) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// TestOCSF compares events of all kinds of rows with what the schema asks for.
func TestOCSF(t *testing.T) {
	rows := stored(t)
	all := events(t, rows)
	if len(all) != len(rows) {
		t.Fatalf("%d events of %d rows", len(all), len(rows))
	}
	for i, e := range all {
		r := rows[i]
		for _, name := range lacks(e) {
			t.Errorf("%s: %s", r.Kind, name)
		}
		class, activity := classes[int(number(e["class_uid"]))], int(number(e["activity_id"]))
		if number(e["category_uid"]) != float64(class.category) || e["class_name"] != class.name {
			t.Errorf("%s: category %v of class %v %v", r.Kind, e["category_uid"], e["class_uid"], e["class_name"])
		}
		caption, ok := class.activities[activity]
		if !ok || e["type_name"] != class.name+": "+caption || activity != 99 && e["activity_name"] != caption || e["activity_name"] == "" {
			t.Errorf("%s: activity %d is called %v, %v", r.Kind, activity, e["activity_name"], e["type_name"])
		}
		if number(e["type_uid"]) != number(e["class_uid"])*100+float64(activity) {
			t.Errorf("%s: type %v", r.Kind, e["type_uid"])
		}
		if int64(number(e["time"])) != r.Time.UnixMilli() {
			t.Errorf("%s: time %v, want %d", r.Kind, e["time"], r.Time.UnixMilli())
		}
		if e["status_id"] != 1.0 && e["status_id"] != 2.0 || e["severity"] == "" {
			t.Errorf("%s: status %v, severity %v", r.Kind, e["status_id"], e["severity"])
		}
	}
}

// TestOCSFLosesNothing puts rows together again from events.
func TestOCSFLosesNothing(t *testing.T) {
	rows := stored(t)
	for i, line := range strings.Split(strings.TrimSpace(exported(t, "ocsf", rows)), "\n") {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, e.Metadata.OriginalTime)
		if err != nil {
			t.Fatal(err)
		}
		got := audit.Row{Seq: e.Metadata.Sequence, Time: at, Kind: e.Metadata.EventCode, Run: e.Metadata.Correlation,
			Namespace: e.Metadata.Tenant, Data: e.Unmapped.Data, Prev: e.Unmapped.Prev, Hash: e.Metadata.UID}
		if diff := cmp.Diff(rows[i], got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestOCSFMeans has what an analyst looks for.
func TestOCSFMeans(t *testing.T) {
	find := map[string]func(e event) bool{
		"a program that exits": func(e event) bool {
			return e.ClassUID == 1007 && e.ExitCode != nil && *e.ExitCode == 3 && e.StatusID == 2
		},
		"a refused run": func(e event) bool {
			return e.ClassUID == 1007 && e.Detail == "no landlock" && e.ActionID == 2 && e.SeverityID == 3
		},
		"a refused look-up": func(e event) bool {
			return e.ClassUID == 4003 && e.Query.Hostname == "evil.example" && e.RcodeID == 5 && e.ActionID == 2
		},
		"a refused connection": func(e event) bool {
			return e.TypeUID == 400105 && e.Destination.Hostname == "evil.example" && e.Destination.Port == 443
		},
		"a connection": func(e event) bool { return e.TypeUID == 400101 && e.Traffic.Bytes == 10 && e.ActionID == 1 },
		"a sandbox":    func(e event) bool { return e.Device != nil && e.Device.TypeID == 99 && e.Device.Type == "Sandbox" },
		"a failed one": func(e event) bool { return e.TypeUID == 400104 && e.StatusID == 2 },
		"what is no host name": func(e event) bool {
			return e.TypeUID == 400105 && e.Destination != nil && e.Destination.Hostname == "" && e.Destination.Name != ""
		},
		"who approved": func(e event) bool {
			return e.TypeUID == 300410 && e.Actor.User != nil && e.Actor.User.Name == "ann" && e.Entity.Name == "example.com"
		},
		"leased secrets":      func(e event) bool { return e.TypeUID == 600302 && len(e.Resources) == 2 },
		"a new secret":        func(e event) bool { return e.TypeUID == 300401 && e.Entity.UID == "team/TOKEN" },
		"an installation":     func(e event) bool { return e.TypeUID == 600201 && e.App.Name == "numpy 2.1.0" },
		"a limit":             func(e event) bool { return e.TypeUID == 100799 && e.ActivityName == "Resource Exceeded" },
		"a withheld artifact": func(e event) bool { return strings.Contains(string(e.Unmapped.Data), `"withheld"`) },
	}
	for name, is := range find {
		found := false
		for line := range strings.Lines(exported(t, "ocsf", stored(t))) {
			var e event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			found = found || is(e)
		}
		if !found {
			t.Errorf("there is no event for %s", name)
		}
	}
}

func BenchmarkExport(b *testing.B) {
	rows := stored(b)
	for _, format := range Formats() {
		b.Run(format, func(b *testing.B) {
			w, err := New(format, io.Discard, About{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := w.Row(rows[i%len(rows)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
