package browser

import (
	"encoding/json"
	"time"
)

// maxLoading is the maximum number of counted requests: a page can start any number.
const maxLoading = 10_000

// maxID is the maximum size of an id in bytes. The browser's own have up to 40.
const maxID = 200

// eventState is the state of a visit, updated by the browser's events.
type eventState struct {
	tell func(session, method string, params object)

	session string // the page's
	frame   string // the page's top frame, which the other fields describe
	status  int
	loading map[string]struct{} // requests under way
	busy    time.Time           // time of the last request
	loaded  bool
	crashed bool

	dialogs, popups, downloads int
}

// eventParams are the used parameters of events. A page can forge them.
type eventParams struct {
	RequestID string `json:"requestId"`
	FrameID   string `json:"frameId"`
	Name      string `json:"name"`
	Type      string `json:"type"`
	Session   string `json:"sessionId"`
	Waiting   bool   `json:"waitingForDebugger"`
	Response  struct {
		Status int `json:"status"`
	} `json:"response"`
	TargetInfo struct {
		TargetID string `json:"targetId"`
		Type     string `json:"type"`
	} `json:"targetInfo"`
}

// handleEvent handles one event.
func (w *eventState) handleEvent(m message) {
	var e eventParams
	if json.Unmarshal(m.Params, &e) != nil {
		return
	}
	switch m.Method {
	case "Target.attachedToTarget":
		w.handleRelated(e)
		return
	case "Browser.downloadWillBegin":
		w.downloads++
		return
	}
	if m.Session != w.session {
		return
	}
	switch m.Method {
	case "Page.javascriptDialogOpening":
		w.dialogs++
		w.tell(w.session, "Page.handleJavaScriptDialog", object{"accept": false})
	case "Page.lifecycleEvent":
		if e.FrameID == w.frame && (e.Name == "init" || e.Name == "load") {
			w.loaded = e.Name == "load"
		}
	case "Inspector.targetCrashed":
		w.crashed = true
	case "Network.responseReceived":
		if e.Type == "Document" && e.FrameID == w.frame {
			w.status = e.Response.Status
		}
	case "Network.requestWillBeSent":
		w.busy = time.Now()
		if len(w.loading) < maxLoading && len(e.RequestID) <= maxID {
			w.loading[e.RequestID] = struct{}{}
		}
	case "Network.loadingFinished", "Network.loadingFailed":
		w.busy = time.Now()
		delete(w.loading, e.RequestID)
	}
}

// handleRelated handles a target that the page has created. It closes a window before its first request; other targets,
// such as workers and frames, continue.
func (w *eventState) handleRelated(e eventParams) {
	switch {
	case e.Session == w.session || w.session == "":
		return // the page itself
	case e.TargetInfo.Type == "page":
		w.popups++
		w.tell("", "Target.closeTarget", object{"targetId": e.TargetInfo.TargetID})
	case e.Waiting:
		w.tell(e.Session, "Runtime.runIfWaitingForDebugger", object{})
	}
}
