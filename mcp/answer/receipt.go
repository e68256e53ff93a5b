package answer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// ReceiptText returns a receipt as readable text. It does not verify the signature, which needs the key.
func ReceiptText(envelope []byte) (string, error) {
	e, err := signer.ParseEnvelope(envelope)
	if err != nil {
		return "", err
	}
	type subject struct {
		Name   string
		Digest struct{ SHA256 string }
	}
	var response struct {
		Subject   []subject
		Predicate signer.Receipt
	}
	if err := json.Unmarshal(e.Payload, &response); err != nil {
		return "", fmt.Errorf("read the receipt: %w", err)
	}
	r := response.Predicate
	var text strings.Builder
	line := func(name, format string, a ...any) {
		if value := safetext.Model(fmt.Sprintf(format, a...)); value != "" {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	end := EndOf(pipeline.Outcome{End: r.End, Usage: pipeline.Usage{WallMS: float64(r.Finished.Sub(r.Began).Microseconds()) / 1000}})
	fmt.Fprintf(&text, "receipt of run %s in namespace %s\n", r.Run, r.Namespace)
	line("session", "%s", r.Session)
	line("ran", "%s, %s, SHA-256 %s", r.Language, r.Name, r.CodeSHA256)
	line("when", "%s to %s", Stamp(r.Began), Stamp(r.Finished))
	line("ended", "%s", end)
	line("contained by", "%s (%s, %s)", strings.Join(r.Layers, " "), r.Backend, r.Profile)
	line("layers missing", "%s", strings.Join(r.MissingLayers, " "))
	line("secrets leased", "%s", strings.Join(r.Secrets, " "))
	line("packages", "%s", strings.Join(r.Packages, " "))
	for i, c := range r.Egress {
		if i == MaxEntries {
			line("egress", "and %s", Count(len(r.Egress)-i+r.EgressUnlisted, "more host"))
			break
		}
		line("egress", "%s, %s", HostOf(egress.Decision{Name: c.Name, Port: c.Port}),
			map[bool]string{true: "allowed", false: "refused"}[c.Allowed])
	}
	line("stdout", "%d bytes, SHA-256 %s", r.StdoutBytes, r.StdoutSHA256)
	line("stderr", "%d bytes, SHA-256 %s", r.StderrBytes, r.StderrSHA256)
	// a run without artifacts has only its code as subject
	response.Subject = slices.DeleteFunc(response.Subject, func(s subject) bool { return s.Name == "code:"+r.CodeSHA256 })
	for i, one := range response.Subject {
		if i == MaxEntries {
			line("artifacts", "and %s", Count(len(response.Subject)-i+r.ArtifactsUnlisted, "more file"))
			break
		}
		line("artifact", "%s, SHA-256 %s", one.Name, one.Digest.SHA256)
	}
	line("artifacts withheld", "%s", strings.Join(r.ArtifactsWithheld, ", "))
	for _, one := range e.Signatures {
		line("signed by key", "%s", one.KeyID)
	}
	text.WriteString(`"encoding": "raw" returns the signed JSON, which sandboxmcp verify --receipt checks`)
	return text.String(), nil
}
