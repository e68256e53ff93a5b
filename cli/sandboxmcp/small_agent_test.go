package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
)

// object is a JSON object.
type object = map[string]any

// lastText is the text that ends a session.
const lastText = "All steps are done."

// runSmallAgent is a small agent: it asks Anthropic's protocol for work, and does it by a shell and by writing files.
func runSmallAgent() {
	if err := workFor(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func workFor(prompt string) error {
	messages := []any{object{"role": "user", "content": prompt}}
	tools := []any{object{"name": "Bash"}, object{"name": "Write"}}
	for {
		body, _ := json.Marshal(object{"model": "small", "stream": true, "messages": messages, "tools": tools})
		r, err := http.NewRequest("POST", "https://api.anthropic.com/v1/messages", bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s %v", answer.Status, text, err)
		}
		var id, name, input string
		for line := range bytes.Lines(text) {
			var e struct {
				Block struct{ ID, Name string } `json:"content_block"`
				Delta struct {
					Partial string `json:"partial_json"`
				}
			}
			data, is := bytes.CutPrefix(line, []byte("data: "))
			if !is {
				continue
			}
			if err := json.Unmarshal(data, &e); err != nil {
				return err
			}
			if e.Block.ID != "" {
				id, name = e.Block.ID, e.Block.Name
			}
			input += e.Delta.Partial
		}
		if id == "" {
			fmt.Println(lastText)
			return nil
		}
		result := useTool(name, input)
		messages = append(messages, object{"role": "assistant",
			"content": []any{object{"type": "tool_use", "id": id, "name": name, "input": json.RawMessage(input)}}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": result}}})
	}
}

func useTool(name, input string) string {
	var step struct {
		Command, Content string
		Path             string `json:"file_path"`
	}
	err := json.Unmarshal([]byte(input), &step)
	var out []byte
	switch {
	case err != nil:
	case name == "Bash":
		out, err = exec.Command("bash", "-c", step.Command).CombinedOutput()
	default:
		err = os.WriteFile(step.Path, []byte(step.Content), 0o644)
	}
	return fmt.Sprintf("%s%v", out, err)
}
