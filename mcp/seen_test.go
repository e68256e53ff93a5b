package mcp

import "strings"

// seen is the part of an answer that reaches a model: text, and the number of images.
type seen struct {
	text   string
	images int
}

// contentOf returns a result as seen by a client that reads only content.
func contentOf(r result) (s seen) {
	var all []string
	for _, c := range r.Content {
		switch c.Type {
		case "text":
			all = append(all, c.Text)
		case "image":
			s.images++
		}
	}
	s.text = strings.Join(all, "\n")
	return s
}

// structuredFirst returns a result as seen by a client that prefers structuredContent to content, images included.
func structuredFirst(r result) seen {
	if r.Structured != nil {
		return seen{text: string(r.Structured)}
	}
	return contentOf(r)
}

// textReplaced returns a result as seen by a client that prefers structuredContent to text.
func textReplaced(r result) seen {
	s := contentOf(r)
	if r.Structured != nil {
		s.text = string(r.Structured)
	}
	return s
}

// inFile writes longer text to a file, of which the model sees the first 2 kB.
func inFile(limit int) func(seen) seen {
	return func(s seen) seen {
		if len(s.text) > limit {
			s.text = s.text[:2000]
		}
		return s
	}
}

// middleOut keeps head and tail of a longer text.
func middleOut(limit int) func(seen) seen {
	return func(s seen) seen {
		if len(s.text) > limit {
			s.text = s.text[:limit/2] + "\n[cut]\n" + s.text[len(s.text)-limit/2:]
		}
		return s
	}
}

// seenClient is the observed behavior of a client.
type seenClient struct {
	take func(result) seen
	cut  func(seen) seen
	both bool // it gets structuredContent besides content
}

// seenClients are the clients in package answer.
func seenClients() map[string]seenClient {
	return map[string]seenClient{
		"claude-code":           {structuredFirst, inFile(50000), false},
		"codex-mcp-client":      {structuredFirst, middleOut(12000), false},
		"opencode":              {structuredFirst, inFile(50000), false},
		"visual studio code":    {textReplaced, middleOut(19000), false},
		"gemini-cli-mcp-client": {contentOf, middleOut(19000), false},
		"mcporter":              {contentOf, middleOut(19000), false},
		"mcp":                   {structuredFirst, middleOut(19000), false},
		"inspector-":            {contentOf, inFile(1 << 20), true},
		"mcp-inspector":         {contentOf, inFile(1 << 20), true},
	}
}
