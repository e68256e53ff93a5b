package answer

import (
	"slices"
	"strings"
)

// seenClient is the observed behavior of a client: the parts of an answer with both content (text and images) and
// structuredContent that reach its model.
type seenClient struct {
	name      string // lower-case prefix of its clientInfo.name
	seen      string // the behavior, the version and the source
	readsBoth bool   // the model gets all of content even if there is structuredContent
}

// seenClients returns the clients whose behavior is known. Others get text and images without structuredContent: no
// known client loses those. TestWhatIsLeft replays each of them.
func seenClients() []seenClient {
	return []seenClient{
		{"claude-code", "2.1.280, September 2026: structuredContent as JSON instead of content, images too; what is long goes into a file, " +
			"with the first 2 kB of it. anthropics/claude-code#79944, #54737", false},
		{"codex-mcp-client", "0.169, and the source of its FunctionCallOutputPayload: structuredContent as JSON instead of content, " +
			"images too. " +
			"openai/codex#38287", false},
		{"opencode", "1.18, and its source of June 2026 (mcp/catalog.ts): structuredContent as JSON instead of content, images too; of an " +
			"error the text. " +
			"anomalyco/opencode#32074", false},
		{"visual studio code", "source of mcpLanguageModelToolContribution.ts: structuredContent as JSON instead of text; images and links stay",
			false},
		{"gemini-cli-mcp-client", "0.61, and the source of 0.56 (mcp-tool.ts): content with images; structuredContent is not read", false},
		{"mcporter", "source of 0.7.4 (result-utils.ts): prints the text; of structuredContent only what is called json, data or markdown, " +
			"instead of it", false},
		{"mcp", "the Python SDK's default name: both reach the program, and what that hands on is not known", false},
		{"inspector-", "MCP Inspector, source of 2.3.0 (ToolResultPanel.tsx): shows each block of content, and structuredContent beside it",
			true},
		{"mcp-inspector", "the same, by the name that its core has", true},
	}
}

// ReadsStructured reports whether a client's model gets all of an answer with structuredContent.
func ReadsStructured(client string) bool {
	name := strings.ToLower(client)
	return slices.ContainsFunc(seenClients(), func(c seenClient) bool { return c.readsBoth && strings.HasPrefix(name, c.name) })
}
