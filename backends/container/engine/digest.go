package engine

import "github.com/distribution/reference"

// Digest chooses the digest (repository@sha256:...) that the registry of ref has for an image: the same content may
// have come from several. It is "" if no registry can know it: Podman gives one to what was made here, too, under the
// name localhost.
func Digest(ref string, digests []string) string {
	asked, _ := reference.ParseNormalizedNamed(ref) // may be an id
	first := ""
	for _, d := range digests {
		n, err := reference.ParseNormalizedNamed(d)
		if err != nil || reference.Domain(n) == "localhost" {
			continue
		}
		if asked != nil && n.Name() == asked.Name() {
			return d
		}
		if first == "" {
			first = d
		}
	}
	return first
}
