package tokens

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"slices"
)

// formats returns all known formats. Where a token has no fixed length, the minimum is that of its maker's
// documentation or, failing that, of observed tokens. Of several formats that match at one place the first one counts.
func formats() []*format {
	all := []*format{
		open("a GitHub token", 36, letters, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
		open("a GitHub token", 60, bytesOf("a-zA-Z0-9_"), "github_pat_"),
		open("a GitLab token", 20, base64URL, "glpat-", "gldt-", "glptt-", "glrt-", "glrtr-", "glcbt-", "glft-", "glimt-", "glagent-",
			"gloas-", "glsoat-", "glffct-", "glwt-", "GR1348941", "_gitlab_session=").more(".", letters),
		whole("an AWS access key id", 16, bytesOf("A-Z2-7"), "AKIA", "ASIA", "ABIA", "ACCA"),
		{kind: "an AWS access key id", begins: []string{"A3T"}, next: []*set{upper}, apart: letters,
			pieces: []piece{exactly(17, upper)}, sure: 1, check: plausible},
		named("an AWS secret access key", exactly(40, bytesOf("a-zA-Z0-9/+=")), plausible, "aws_secret", "secret_access_key"),
		open("an AWS Bedrock key", 100, base64Std, "ABSK"),
		open("an AWS Bedrock key", 10, base64Std, "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"),

		{kind: "a Slack token", begins: []string{"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe-", "xapp-", "xoxe.xoxb-", "xoxe.xoxp-"},
			pieces: []piece{run(bytesOf("a-zA-Z0-9-"), 16, 16), run(bytesOf("a-zA-Z0-9-"), 0, 0)}, sure: 1, check: numbered},
		open("a Slack webhook", 40, base64Std, "hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"),
		open("a Discord webhook", 60, bytesOf("a-zA-Z0-9_/-"), "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
		{kind: "a Discord bot token", apart: base64URL,
			begins: []string{""}, next: []*set{bytesOf("MNO"), bytesOf("DTjz"), bytesOf("AEIMQUYcgk"), bytesOf("w-z0-5")},
			pieces: []piece{run(letters, 23, 28), {text: "."}, run(base64URL, 6, 6), {text: "."}, run(base64URL, 27, 27), run(base64URL, 0, 0)},
			sure:   5, check: ofUser},
		{kind: "a Telegram bot token", begins: []string{":AA"}, next: []*set{base64URL},
			pieces: []piece{exactly(33, base64URL)}, sure: 1, check: both(plausible, behindDigits)},

		open("a Stripe key", 16, letters, "sk_live_", "rk_live_", "sk_test_", "rk_test_", "sk_prod_", "rk_prod_"),
		open("a webhook secret", 32, base64Std, "whsec_"),
		whole("a Google API key", 35, base64URL, "AIza"),
		open("a Google OAuth token", 40, base64URL, "ya29.").more(".", base64URL),
		open("a Google OAuth secret", 24, base64URL, "GOCSPX-"),

		open("an OpenAI key", 40, base64URL, "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
		open("an OpenRouter key", 40, lowerHex, "sk-or-v1-"),
		open("an Anthropic key", 40, base64URL, "sk-ant-"),
		{kind: "an OpenAI key", begins: []string{"sk-"}, next: []*set{letters}, apart: letters,
			pieces: []piece{run(letters, 20, 20), {text: "T3BlbkFJ"}, run(letters, 20, 20), run(letters, 0, 0)}, sure: 3, check: plausible},
		open("a Groq key", 40, letters, "gsk_").with(mixed),
		open("an xAI key", 60, letters, "xai-"),
		open("an NVIDIA key", 50, base64URL, "nvapi-"),
		open("a Perplexity key", 40, letters, "pplx-"),
		open("a Replicate token", 37, letters, "r8_").with(mixed),
		open("a Hugging Face token", 34, letters, "hf_", "api_org_").with(mixed),

		open("a sandboxmcp token", 69, bytesOf("A-Z2-7_"), "smcp_"), // pipeline/identity makes them
		open("an E2B key", 40, lowerHex, "e2b_"),                    // and these, of tokens for E2B's SDKs
		open("an npm token", 36, letters, "npm_"),
		open("a PyPI token", 50, base64URL, "pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"),
		open("a RubyGems key", 48, lowerHex, "rubygems_"),
		open("a Docker Hub token", 27, base64URL, "dckr_pat_", "dckr_oat_"),
		open("a SendGrid key", 60, bytesOf("a-zA-Z0-9_.-"), "SG.").with(twoParts),
		{kind: "a Twilio key", begins: []string{"SK"}, next: []*set{lowerHex}, apart: letters, pieces: []piece{exactly(32, lowerHex)}, sure: 1, check: plausible},
		named("a Twilio token", exactly(32, lowerHex), secretly, "twilio"),
		named("a Mailgun key", piece{set: bytesOf("0-9a-fkey-"), min: 32, max: 50, after: bytesOf("0-9a-z-").not(), end: true}, secretly, "mailgun", "mail_gun", "mg_api_key"),
		open("a Brevo key", 64, bytesOf("a-zA-Z0-9-"), "xkeysib-", "xsmtpsib-"),

		open("a DigitalOcean token", 64, lowerHex, "dop_v1_", "doo_v1_", "dor_v1_"),
		open("a Heroku key", 58, base64URL, "HRKU-AA"),
		open("a Fly.io token", 43, bytesOf("a-zA-Z0-9_+/=-"), "fo1_", "fm1r_", "fm1a_", "fm2_"),
		open("a Netlify token", 36, letters, "nfp_"),
		open("a Supabase token", 40, lowerHex, "sbp_"),
		open("a Tailscale key", 20, bytesOf("a-zA-Z0-9-"), "tskey-").with(mixed),
		open("a PlanetScale token", 32, dotted, "pscale_tkn_", "pscale_oauth_", "pscale_pw_"),
		open("a Shopify token", 32, anyHex, "shpat_", "shpca_", "shppa_", "shpss_"),
		whole("a Square token", 60, base64URL, "EAAA").with(unfolded),
		open("a Square token", 22, base64URL, "sq0atp-", "sq0csp-"),
		open("a Linear key", 32, letters, "lin_api_", "lin_oauth_"),
		named("a Linear secret", exactly(32, lowerHex), secretly, "linear"),
		open("a Notion token", 46, letters, "ntn_"),
		whole("a Notion token", 43, letters, "secret_").with(mixed),
		whole("a Databricks token", 32, lowerHex, "dapi"),
		named("a Discord secret", exactly(32, bytesOf("a-zA-Z0-9_=-")), secretly, "discord"),
		open("an Atlassian token", 100, dotted, "ATATT3", "ATCTT3"),
		open("a Grafana token", 32, bytesOf("a-zA-Z0-9_+/="), "glsa_", "glc_"),
		open("a Pulumi token", 40, lowerHex, "pul-"),
		open("a Postman key", 50, bytesOf("0-9a-fA-F-"), "PMAK-"),
		open("a Doppler token", 40, letters, "dp.pt.", "dp.st.", "dp.ct.", "dp.sa."),
		open("a Dynatrace token", 60, bytesOf("a-zA-Z0-9."), "dt0c01.", "dt0s01."),
		open("a Sentry token", 50, bytesOf("a-zA-Z0-9_+/="), "sntrys_", "sntryu_"),
		open("a New Relic key", 27, bytesOf("a-zA-Z0-9-"), "NRAK-"),
		whole("an Artifactory key", 69, letters, "AKCp"),
		open("a 1Password token", 100, base64Std, "ops_eyJ"),
		whole("an Alibaba access key id", 20, letters, "LTAI"),

		open("a Vault token", 24, base64URL, "hvs.", "hvb.", "hvr.").with(mixed),
		{kind: "a Vault token", begins: []string{"s."}, next: []*set{letters}, around: " \n\t\"'`=:,(>|[", apart: letters,
			pieces: []piece{exactly(24, bytesOf("a-zA-Z0-9_.-"))}, sure: 1, check: oldVault},
		open("a Terraform token", 60, bytesOf("a-zA-Z0-9_=-"), ".atlasv1."),
		{kind: "an Azure storage key", begins: []string{"AccountKey="}, pieces: []piece{run(base64Std, 86, 86), {text: "=="}}, sure: 2, check: plausible},
		{kind: "an Azure access key", begins: []string{"SharedAccessKey="}, pieces: []piece{run(base64Std, 43, 43), {text: "="}}, sure: 2, check: plausible},
		{kind: "an Azure signature", begins: []string{"&sig=", "?sig=", ";sig="}, sure: 1, check: signature,
			pieces: []piece{{set: bytesOf("a-zA-Z0-9+/=%_-"), min: 43, max: 140, after: bytesOf("a-zA-Z0-9+/=%_-").not(), end: true}}},
		{kind: "an Azure client secret", sure: 1, check: both(plausible, behindThree), next: []*set{bytesOf("a-zA-Z0-9_~.-")},
			begins: []string{"0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"},
			pieces: []piece{{set: bytesOf("a-zA-Z0-9_~.-"), min: 31, max: 34, after: bytesOf("a-zA-Z0-9_~.-").not(), end: true}}},

		open("an age secret key", 58, bytesOf("A-Z0-9"), "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-PQ-1"),
		privateKey(), webToken(), webTokenSpaced(), withPassword(),
	}
	return all
}

// more lets a format go on after text, which must be followed by the set.
func (f *format) more(text string, s *set) *format {
	for range 3 {
		f.pieces = append(f.pieces, piece{text: text}, run(s, 1, 0))
	}
	return f
}

// with puts a check in addition.
func (f *format) with(check func(token) bool) *format {
	f.check = both(f.check, check)
	return f
}

func both(a, b func(token) bool) func(token) bool {
	return func(t token) bool { return a(t) && b(t) }
}

// numbered: Slack's tokens begin with numbers, which say little each, and words with hyphens do not.
func numbered(t token) bool { return bytes.ContainsAny(t.secret, "0123456789") && drawn(t.secret, 1.5) }

// mixed: random letters of both cases, where a name in a program could be as long.
func mixed(t token) bool {
	up := bytes.ContainsFunc(t.secret, func(r rune) bool { return r >= 'A' && r <= 'Z' })
	low := bytes.ContainsFunc(t.secret, func(r rune) bool { return r >= 'a' && r <= 'z' })
	return up && low
}

// twoParts: 22 characters, a dot, and 43.
func twoParts(t token) bool { return bytes.Count(t.secret, []byte(".")) == 1 }

// oldVault: the name of a method may be as long, but its letters change their case less often.
func oldVault(t token) bool {
	changes := 0
	for i := 1; i < len(t.secret); i++ {
		if charClass(t.secret[i]) != charClass(t.secret[i-1]) {
			changes++
		}
	}
	return changes >= 10 && numbered(t) && !bytes.ContainsAny(t.secret, "._-") && entropy(t.secret) >= 3.5
}

// charClass returns '0', 'A' or 'a' for a byte: up to the digits, up to the capitals, or above.
func charClass(b byte) byte {
	switch {
	case b <= '9':
		return '0'
	case b <= 'Z':
		return 'A'
	}
	return 'a'
}

// behindDigits: the number of the bot stands before.
func behindDigits(t token) bool {
	id := bytes.TrimRight(t.behind, "0123456789")
	n := len(t.behind) - len(id)
	return n >= 6 && n <= 16
}

func behindThree(t token) bool {
	n := len(t.behind)
	return n >= 3 && len(bytes.Trim(t.behind[n-3:], " \t\r\n\"'`=:,;()<>[]{}")) == 3
}

// ofUser: the first part of a Discord token is the number of its user.
func ofUser(t token) bool {
	part, _, _ := bytes.Cut(t.whole, []byte("."))
	id, err := base64.RawStdEncoding.DecodeString(string(part))
	return err == nil && len(bytes.Trim(id, "0123456789")) == 0 && plausible(t)
}

// unfolded: a line of folded base64 looks like Square's tokens, but lines like it stand before it.
func unfolded(t token) bool {
	above, ok := bytes.CutSuffix(t.behind, []byte("\n"))
	above = bytes.TrimRight(above, "\r")
	n := len(above)
	return !ok || n < 32 || slices.ContainsFunc(above[n-32:], func(b byte) bool { return !base64Std[b] && !base64URL[b] })
}

// signature: 32 bytes in base64, as a URL has it.
func signature(t token) bool {
	text, err := url.PathUnescape(string(t.secret))
	if err != nil {
		return false
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(sum) == 32 && plausible(t)
}
