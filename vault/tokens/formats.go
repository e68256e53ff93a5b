package tokens

import (
	"regexp"
	"strings"
	"sync"
)

// format is the format of a kind of token. Its patterns are compiled when one of its heads is found.
type format struct {
	kind        string
	heads       string // words, with one of which it begins
	match       string // pattern of the bytes after the head; its group is the secret
	rest        string // pattern of bytes that extend the secret
	again       string // pattern of an extension that includes the secret's last bytes
	behind      string // pattern of the text before it
	notAfter    string // a class of bytes that must not precede it
	keepsPrefix bool   // the text before the secret is not masked
	stops       string // of these bytes, only "@" may come first after the head,
	within      int    // within this many bytes: rejects most text without a pattern
	check       func(t *token) bool

	compile             sync.Once
	body, after, before *regexp.Regexp
}

func (f *format) compilePatterns() {
	f.body = regexp.MustCompile("^(?:" + f.match + ")")
	f.before = regexp.MustCompile("(?:" + f.behind + ")$")
	if f.rest != "" {
		f.after = regexp.MustCompile("(?s)^(?:" + f.again + ".{16})" + f.rest)
	}
}

// token is a match of a format.
type token struct {
	behind []byte // some of the text before it
	whole  []byte // up to the end of its secret
	secret []byte
}

// Classes of bytes.
const (
	lowerHex  = "0-9a-f"
	letters   = "a-zA-Z0-9"
	base64Std = letters + "+/"
	base64URL = letters + `_\-`
	dotted    = letters + "_.=-"
)

// fixedLength returns a format with exactly n bytes of a class. A head of four bytes or less must not follow a byte of
// the class.
func fixedLength(kind, n, class, heads string) *format {
	f := &format{kind: kind, heads: heads, match: exactLength(n, class), check: isPlausible}
	if head, _, _ := strings.Cut(heads, " "); len(head) <= 4 {
		f.notAfter = letters
	}
	return f
}

func exactLength(n, class string) string {
	return "([" + class + "]{" + n + "})(?:[^" + class + `]|\z)`
}

// minLength returns a format with at least n bytes of a class.
func minLength(kind string, n, class, heads string) *format {
	f := fixedLength(kind, n, class, heads)
	f.match, f.rest = "(["+class+"]{"+n+"})", "["+class+"]*"
	return f
}

// afterName returns a format without a head: a value counts after the name of its service, an equals sign or the like,
// and quotes.
func afterName(kind, value string, check func(*token) bool, names string) *format {
	return &format{kind: kind, heads: names, keepsPrefix: true, check: check,
		match: "[a-zA-Z0-9_.-]{0,30}[ \t\"'`\\\\\\])]{0,4}[=:>,|]{1,3}[ \t\"'`\\\\]{0,6}" + value}
}

// withCheck replaces the check.
func (f *format) withCheck(check func(*token) bool) *format {
	f.check = check
	return f
}

// formats returns all known formats. Where a token has no fixed length, the minimum is that of its maker's
// documentation or, failing that, of observed tokens. Of several formats that match at one place the first one counts.
func formats() []*format {
	return []*format{
		minLength("a GitHub token", "36", letters, "ghp_ gho_ ghu_ ghs_ ghr_"),
		minLength("a GitHub token", "60", letters+"_", "github_pat_"),
		minLength("a GitLab token", "20", letters+"_.-", "glpat- gldt- glptt- glrt- glrtr- glcbt- glft- glimt- glagent- gloas- glsoat- "+
			"glffct- glwt- "+
			"GR1348941 _gitlab_session="),
		fixedLength("an AWS access key id", "16", "A-Z2-7", "AKIA ASIA ABIA ACCA"),
		fixedLength("an AWS access key id", "17", "A-Z0-9", "A3T"),
		afterName("an AWS secret access key", exactLength("40", base64Std+"="), isPlausible,
			"aws_secret AWS_SECRET AwsSecret awsSecret aws-secret "+
				"secret_access_key SECRET_ACCESS_KEY SecretAccessKey secretAccessKey secret-access-key"),
		minLength("an AWS Bedrock key", "100", base64Std, "ABSK"),
		minLength("an AWS Bedrock key", "10", base64Std, "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"),

		minLength("a Slack token", "16", letters+"-", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xapp- xoxe.xoxb- xoxe.xoxp-").withCheck(
			isNumbered),
		minLength("a Slack webhook", "40", base64Std, "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/"),
		minLength("a Discord webhook", "60", letters+"_/-", "discord.com/api/webhooks/ discordapp.com/api/webhooks/"),
		// Its first part is the number of its user, in base64.
		{kind: "a Discord bot token", heads: "MD MT Mj Mz ND NT Nj Nz OD OT Oj Oz", notAfter: base64URL, rest: "[a-zA-Z0-9_-]*",
			check: isPlausible,
			match: `([AEIMQUYcgk][w-z0-5](?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){4,6}[MNODTjzAEIMQUYcgkw]{0,3}\.[a-zA-Z0-9_-]{6}\.[a-zA-Z0-9_-]{27})`},
		{kind: "a Telegram bot token", heads: ":AA", match: exactLength("33", base64URL), behind: "(?:^|[^0-9])[0-9]{6,16}", check: isPlausible},

		minLength("a Stripe key", "16", letters, "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_"),
		minLength("a webhook secret", "32", base64Std, "whsec_"),
		fixedLength("a Google API key", "35", base64URL, "AIza"),
		minLength("a Google OAuth token", "40", base64URL+".", "ya29."),
		minLength("a Google OAuth secret", "24", base64URL, "GOCSPX-"),

		minLength("an OpenAI key", "40", base64URL, "sk-proj- sk-svcacct- sk-admin- sk-None-"),
		minLength("an OpenRouter key", "40", lowerHex, "sk-or-v1-"),
		minLength("an Anthropic key", "40", base64URL, "sk-ant-"),
		{kind: "an OpenAI key", heads: "sk-", notAfter: letters, check: isPlausible,
			match: "([a-zA-Z0-9]{20}T3BlbkFJ[a-zA-Z0-9]{20})", rest: "[a-zA-Z0-9]*"},
		minLength("a Groq key", "40", letters, "gsk_").withCheck(isMixed),
		minLength("an xAI key", "60", letters, "xai-"),
		minLength("an NVIDIA key", "50", base64URL, "nvapi-"),
		minLength("a Perplexity key", "40", letters, "pplx-"),
		minLength("a Replicate token", "37", letters, "r8_").withCheck(isMixed),
		minLength("a Hugging Face token", "34", letters, "hf_ api_org_").withCheck(isMixed),

		minLength("a sandboxmcp token", "69", "A-Z2-7_", "smcp_"), // pipeline/identity makes them
		minLength("an E2B key", "40", lowerHex, "e2b_"),           // and these, of tokens for E2B's SDKs
		minLength("an npm token", "36", letters, "npm_"),
		minLength("a PyPI token", "50", base64URL, "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw"),
		minLength("a RubyGems key", "48", lowerHex, "rubygems_"),
		minLength("a Docker Hub token", "27", base64URL, "dckr_pat_ dckr_oat_"),
		{kind: "a SendGrid key", heads: "SG.", notAfter: letters, check: isPlausible,
			match: `([a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43})`, rest: "[a-zA-Z0-9_.-]*"},
		fixedLength("a Twilio key", "32", lowerHex, "SK"),
		afterName("a Twilio token", exactLength("32", lowerHex), isNamedSecret, "twilio TWILIO Twilio"),
		afterName("a Mailgun key", "([0-9a-fkey-]{32,50})(?:[^0-9a-z-]|\\z)", isNamedSecret, "mailgun MAILGUN Mailgun "+
			"mail_gun MAIL_GUN MailGun mailGun mail-gun mg_api_key MG_API_KEY MgApiKey mgApiKey mg-api-key"),
		minLength("a Brevo key", "64", letters+"-", "xkeysib- xsmtpsib-"),

		minLength("a DigitalOcean token", "64", lowerHex, "dop_v1_ doo_v1_ dor_v1_"),
		minLength("a Heroku key", "58", base64URL, "HRKU-AA"),
		minLength("a Fly.io token", "43", base64Std+"_=-", "fo1_ fm2_ fm1r_ fm1a_"),
		minLength("a Netlify token", "36", letters, "nfp_"),
		minLength("a Supabase token", "40", lowerHex, "sbp_"),
		minLength("a Tailscale key", "20", letters+"-", "tskey-").withCheck(isMixed),
		minLength("a PlanetScale token", "32", dotted, "pscale_tkn_ pscale_oauth_ pscale_pw_"),
		minLength("a Shopify token", "32", "0-9a-fA-F", "shpat_ shpca_ shppa_ shpss_"),
		fixedLength("a Square token", "60", base64URL, "EAAA").withCheck(isUnfolded),
		minLength("a Square token", "22", base64URL, "sq0atp- sq0csp-"),
		minLength("a Linear key", "32", letters, "lin_api_ lin_oauth_"),
		afterName("a Linear secret", exactLength("32", lowerHex), isNamedSecret, "linear LINEAR Linear"),
		minLength("a Notion token", "46", letters, "ntn_"),
		fixedLength("a Notion token", "43", letters, "secret_").withCheck(isMixed),
		fixedLength("a Databricks token", "32", lowerHex, "dapi"),
		afterName("a Discord secret", exactLength("32", base64URL+"="), isNamedSecret, "discord DISCORD Discord"),
		minLength("an Atlassian token", "100", dotted, "ATATT3 ATCTT3"),
		minLength("a Grafana token", "32", base64Std+"_=", "glc_ glsa_"),
		minLength("a Pulumi token", "40", lowerHex, "pul-"),
		minLength("a Postman key", "50", "0-9a-fA-F-", "PMAK-"),
		minLength("a Doppler token", "40", letters, "dp.pt. dp.st. dp.ct. dp.sa."),
		minLength("a Dynatrace token", "60", letters+".", "dt0c01. dt0s01."),
		minLength("a Sentry token", "50", base64Std+"_=", "sntrys_ sntryu_"),
		minLength("a New Relic key", "27", letters+"-", "NRAK-"),
		fixedLength("an Artifactory key", "69", letters, "AKCp"),
		minLength("a 1Password token", "100", base64Std, "ops_eyJ"),
		fixedLength("an Alibaba access key id", "20", letters, "LTAI"),

		minLength("a Vault token", "24", base64URL, "hvs. hvb. hvr.").withCheck(isMixed),
		{kind: "a Vault token", heads: "s.", notAfter: letters, behind: "[ \n\t\"'`=:,(>|\\[]", check: isOldVault,
			match: "([a-zA-Z0-9]{24})(?:[^a-zA-Z0-9_.-]|\\z)", stops: "`(.,:;_ -", within: 24},
		minLength("a Terraform token", "60", base64URL+"=", ".atlasv1."),
		{kind: "an Azure storage key", heads: "AccountKey=", match: "([a-zA-Z0-9+/]{86}==)", check: isPlausible},
		{kind: "an Azure access key", heads: "SharedAccessKey=", match: "([a-zA-Z0-9+/]{43}=)", check: isPlausible},
		{kind: "an Azure signature", heads: "&sig= ?sig= ;sig=", check: isPlausible,
			match: "((?:[a-zA-Z0-9+/_-]|%2[BFbf]){43}(?:=|%3[Dd]))(?:[^a-zA-Z0-9+/=%_-]|\\z)"},
		{kind: "an Azure client secret", heads: "0Q~ 1Q~ 2Q~ 3Q~ 4Q~ 5Q~ 6Q~ 7Q~ 8Q~ 9Q~", check: isPlausible,
			behind: "[^ \t\r\n\"'`=:,;()<>\\[\\]{}]{3}", match: exactLength("31,34", letters+"_~.-")},
		minLength("an age secret key", "58", "A-Z0-9", "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1"),

		// A header in base64 that is JSON with an algorithm, a space or a line's end in it or not, and the parts behind it.
		{kind: "a JSON web token", heads: "eyJ eyAi ewog ewoi ewoJ ew0K", notAfter: base64URL, match: `([a-zA-Z0-9_-]{11,}\.[a-zA-Z0-9_-]{10})`,
			rest: "[a-zA-Z0-9_.-]*", check: hasHeader},
		// The body of a key in PEM or PGP's armour, also as a string in a program. Where its last line is missing, it ends
		// at the space behind a short word.
		{kind: "a private key", heads: "BEGIN", behind: "---- ?", keepsPrefix: true, check: isKeyBody,
			match: ` [A-Za-z0-9 _]{0,80}(?i:PRIVATE KEY)[A-Za-z0-9 _]{0,20}-----?` +
				`((?:` + keyArmour + `*[A-Z][A-Za-z-]{2,20}: [^\r\n\\]{0,200}(?:\r?\n|\\[rn]?))*` +
				keyArmour + `*[a-zA-Z0-9+/]{32})`,
			rest:  `(?:[a-zA-Z0-9+/=]{16,} +|[a-zA-Z0-9+/=]|[+\t\r\n\\"',:;()<>] *)*`,
			again: `.{0,16}?[a-zA-Z0-9+/=]{16,} +|.{15}[+ \t\r\n\\"',:;()<>] *|`},
		{kind: "a URL with a password", heads: "://", behind: "[a-zA-Z0-9]", keepsPrefix: true, check: isPassword,
			stops: "@/?# \t\r\n\"'<>`", within: 400,
			match: `[a-zA-Z0-9._~%!$&*+;=-]{0,128}:([a-zA-Z0-9._~%!$&*+;=:,(){}[\]^|-]{5,256})@`},
	}
}

// keyArmour matches the separators between the lines of a key.
const keyArmour = `(?:[ \t\r\n"',:;()<>+]|\\[rnt]?)`
