package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// valueTimeouts bound the conversion of a value and the listing of variables, which run methods of the program's
// objects.
var valueTimeouts = timeouts{limit: 30 * time.Second}

// Variable is a variable of a session, with a description of its value.
type Variable struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Text string `json:"text"`           // start of its printed form
	Size int64  `json:"size,omitempty"` // bytes, elements or rows: see Unit
	Unit string `json:"unit,omitempty"`
}

// Set sets the variable key to value; in a shell also the file $BRIDGE/key.json.
func (k *Kernel) Set(ctx context.Context, key string, value json.RawMessage) error {
	if !json.Valid(value) {
		return fmt.Errorf("set %s: the value is not JSON", key)
	}
	if _, err := k.call(ctx, request{Op: "set", Key: key, Value: value}); err != nil {
		return fmt.Errorf("set %s: %w", key, err)
	}
	return nil
}

// Get returns the variable key as JSON; its error explains why the value has no JSON form.
func (k *Kernel) Get(ctx context.Context, key string) (json.RawMessage, error) {
	a, err := k.call(ctx, request{Op: "get", Key: key})
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	if a.JSON == nil {
		return json.RawMessage("null"), nil
	}
	return a.JSON, nil
}

// Variables lists the names that cells have defined, sorted.
func (k *Kernel) Variables(ctx context.Context) ([]Variable, error) {
	a, err := k.call(ctx, request{Op: "vars"})
	if err != nil {
		return nil, fmt.Errorf("list variables: %w", err)
	}
	return a.Vars, nil
}

// call sends a request other than a cell.
func (k *Kernel) call(ctx context.Context, q request) (answer, error) {
	if err := k.checkOp(q.Op); err != nil {
		return answer{}, err
	}
	release, err := k.acquire(ctx)
	if err != nil {
		return answer{}, err
	}
	defer release()
	k.id++
	q.ID = k.id
	frame, err := k.codec.encode(q)
	if err != nil {
		return answer{}, err
	}
	a := k.roundTrip(ctx, q.ID, frame, valueTimeouts, k.newCalls(ctx, Cell{}), nil)
	switch {
	case a.dead:
		return a, errors.New("the interpreter ended meanwhile")
	case a.stopped != "":
		return a, fmt.Errorf("it took too long or was cancelled: %s", a.stopped)
	case a.Error != nil:
		return a, a.Error
	}
	return a, nil
}
