package cli

import (
	"strings"

	"github.com/sandboxmcp/sandboxmcp/vault"
)

// tokenHosts are the hosts that well-known tokens are for, by the variables that programs read them from.
var tokenHosts = map[string][]string{
	"ANTHROPIC_API_KEY":      {"api.anthropic.com"},
	"GEMINI_API_KEY":         {"generativelanguage.googleapis.com"},
	"GH_TOKEN":               {"github.com", "api.github.com"}, // git over https, and gh
	"GITHUB_TOKEN":           {"github.com", "api.github.com"},
	"GITLAB_TOKEN":           {"gitlab.com"},
	"GROQ_API_KEY":           {"api.groq.com"},
	"HF_TOKEN":               {"huggingface.co"},
	"HUGGING_FACE_HUB_TOKEN": {"huggingface.co"},
	"MISTRAL_API_KEY":        {"api.mistral.ai"},
	"OPENAI_API_KEY":         {"api.openai.com"},
	"OPENROUTER_API_KEY":     {"openrouter.ai"},
	"SLACK_BOT_TOKEN":        {"slack.com"},
	"STRIPE_SECRET_KEY":      {"api.stripe.com"},
}

// unbound says of a well-known token that was bound to nothing how programs need not see it.
func (p *program) unbound(e vault.Entry) {
	hosts := tokenHosts[e.Key]
	if len(hosts) == 0 || len(e.Hosts) > 0 {
		return
	}
	where := ""
	if e.Namespace != "default" {
		where += " --namespace " + e.Namespace
	}
	if e.Store == vault.InKeyring {
		where += " --store keyring"
	}
	p.say("hint: programs see its value; sandboxmcp vault add %s --host %s --replace%s keeps it outside the sandbox",
		e.Key, strings.Join(hosts, " --host "), where)
}
