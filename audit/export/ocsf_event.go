package export

import "encoding/json"

// class is a class of the schema, with the activities in use here.
type class struct {
	uid          int
	name         string
	category     int
	categoryName string
	activities   map[string]int
}

var (
	processActivity = class{1007, "Process Activity", 1, "System Activity", map[string]int{"Launch": 1, "Terminate": 2}}
	networkActivity = class{4001, "Network Activity", 4, "Network Activity", map[string]int{"Open": 1, "Fail": 4, "Refuse": 5}}
	dnsActivity     = class{4003, "DNS Activity", 4, "Network Activity", map[string]int{"Traffic": 6}}

	entityManagement = class{3004, "Entity Management", 3, "Identity & Access Management",
		map[string]int{"Create": 1, "Read": 2, "Update": 3, "Delete": 4, "Activate": 10, "Deactivate": 11}}
	applicationLifecycle = class{6002, "Application Lifecycle", 6, "Application Activity", map[string]int{"Install": 1}}
	apiActivity          = class{6003, "API Activity", 6, "Application Activity",
		map[string]int{"Create": 1, "Read": 2, "Update": 3, "Delete": 4}}
)

// other is the schema's number for activities and devices without a number of their own.
const other = 99

// choice is a number of the schema with its caption.
type choice struct {
	id   int
	name string
}

var (
	informational = choice{1, "Informational"}
	low           = choice{2, "Low"}
	medium        = choice{3, "Medium"}

	success = choice{1, "Success"}
	failure = choice{2, "Failure"}
)

// event is an event of any class. Its maker sets the first part, and named the second.
type event struct {
	Class         class  `json:"-"`
	Activity      string `json:"-"` // a caption of the class, or "Other"
	OtherActivity string `json:"-"` // what it is then
	Severity      choice `json:"-"`
	Status        choice `json:"-"`

	ActivityID   int    `json:"activity_id"`
	ActivityName string `json:"activity_name"`
	CategoryUID  int    `json:"category_uid"`
	CategoryName string `json:"category_name"`
	ClassUID     int    `json:"class_uid"`
	ClassName    string `json:"class_name"`
	TypeUID      int    `json:"type_uid"`
	TypeName     string `json:"type_name"`
	SeverityID   int    `json:"severity_id"`
	SeverityName string `json:"severity"`
	StatusID     int    `json:"status_id"`
	StatusName   string `json:"status"`

	Detail   string   `json:"status_detail,omitempty"`
	Time     int64    `json:"time"` // milliseconds since 1970
	Message  string   `json:"message,omitempty"`
	Metadata metadata `json:"metadata"`

	ActionID      int    `json:"action_id,omitempty"`
	Action        string `json:"action,omitempty"`
	DispositionID int    `json:"disposition_id,omitempty"`
	Disposition   string `json:"disposition,omitempty"`

	Actor       *actor      `json:"actor,omitempty"`
	API         *api        `json:"api,omitempty"`
	App         *product    `json:"app,omitempty"`
	Comment     string      `json:"comment,omitempty"`
	Connection  *connection `json:"connection_info,omitempty"`
	Destination *endpoint   `json:"dst_endpoint,omitempty"`
	Device      *device     `json:"device,omitempty"`
	Entity      *entity     `json:"entity,omitempty"`
	ExitCode    *int        `json:"exit_code,omitempty"`
	Process     *process    `json:"process,omitempty"`
	Query       *query      `json:"query,omitempty"`
	RcodeID     int         `json:"rcode_id,omitempty"`
	Rcode       string      `json:"rcode,omitempty"`
	Resources   []resource  `json:"resources,omitempty"`
	Source      *endpoint   `json:"src_endpoint,omitempty"`
	Traffic     *traffic    `json:"traffic,omitempty"`

	Unmapped unmapped `json:"unmapped"`
}

// named sets the numbers and captions that follow from the class and the choices.
func (e event) named() event {
	c := e.Class
	e.ActivityID, e.ActivityName = c.activities[e.Activity], e.Activity
	if e.Activity == "Other" {
		e.ActivityID, e.ActivityName = other, e.OtherActivity
	}
	e.CategoryUID, e.CategoryName, e.ClassUID, e.ClassName = c.category, c.categoryName, c.uid, c.name
	e.TypeUID, e.TypeName = c.uid*100+e.ActivityID, c.name+": "+e.Activity
	e.SeverityID, e.SeverityName = e.Severity.id, e.Severity.name
	e.StatusID, e.StatusName = e.Status.id, e.Status.name
	return e
}

func (e *event) allow(why string) {
	e.Metadata.Profiles = []string{"security_control"}
	e.ActionID, e.Action, e.DispositionID, e.Disposition, e.Detail = 1, "Allowed", 1, "Allowed", why
}

func (e *event) deny(why string) {
	e.Metadata.Profiles = []string{"security_control"}
	e.ActionID, e.Action, e.DispositionID, e.Disposition, e.Detail = 2, "Denied", 2, "Blocked", why
	e.Status, e.Severity = failure, low
}

// unmapped has the facts that the schema has no place for: the unchanged data of the row, and its place in the chain.
type unmapped struct {
	Data json.RawMessage `json:"data"`
	Prev string          `json:"prev"`
}
