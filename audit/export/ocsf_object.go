package export

// The schema's objects, with the fields in use here.
type (
	metadata struct {
		Version      string   `json:"version"`
		Product      product  `json:"product"`
		Profiles     []string `json:"profiles,omitempty"`
		UID          string   `json:"uid"`      // the hash of the row
		Sequence     int64    `json:"sequence"` // its number
		EventCode    string   `json:"event_code"`
		Tenant       string   `json:"tenant_uid,omitempty"`      // the namespace
		Correlation  string   `json:"correlation_uid,omitempty"` // the run, or the question to a person
		LogName      string   `json:"log_name"`
		LogProvider  string   `json:"log_provider"`
		LoggedTime   int64    `json:"logged_time"`
		OriginalTime string   `json:"original_time"`
	}
	product struct {
		Name    string `json:"name,omitempty"`
		UID     string `json:"uid,omitempty"`
		Vendor  string `json:"vendor_name,omitempty"`
		Version string `json:"version,omitempty"`
	}
	actor struct {
		App  string `json:"app_name"`
		User *user  `json:"user,omitempty"`
	}
	user struct {
		Name string `json:"name"`
	}
	device struct {
		UID    string `json:"uid"`
		Name   string `json:"name"`
		TypeID int    `json:"type_id"`
		Type   string `json:"type"`
	}
	process struct {
		UID     string   `json:"uid"`
		Name    string   `json:"name,omitempty"`
		Sandbox string   `json:"sandbox,omitempty"`
		Session *session `json:"session,omitempty"`
	}
	session struct {
		UID string `json:"uid"`
	}
	endpoint struct {
		UID      string `json:"uid,omitempty"`
		Name     string `json:"name,omitempty"`
		Hostname string `json:"hostname,omitempty"`
		Port     int    `json:"port,omitempty"`
	}
	connection struct {
		DirectionID int    `json:"direction_id"`
		Direction   string `json:"direction"`
		Protocol    string `json:"protocol_name"`
	}
	query struct {
		Hostname string `json:"hostname"`
	}
	traffic struct {
		Bytes int64 `json:"bytes"`
	}
	entity struct {
		UID  string `json:"uid,omitempty"`
		Name string `json:"name"`
		Type string `json:"type"`
	}
	api struct {
		Operation string   `json:"operation"`
		Service   *service `json:"service"`
	}
	service struct {
		Name string `json:"name"`
	}
	resource struct {
		Name      string `json:"name,omitempty"`
		UID       string `json:"uid,omitempty"`
		Type      string `json:"type"`
		Namespace string `json:"namespace,omitempty"`
	}
)
