package container

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// reservedPrefixes are the beginnings of keys that mean something to us, or to engines and what watches them.
var reservedPrefixes = []string{"sandboxmcp.", "com.docker.", "io.docker.", "org.dockerproject.", "io.podman.", "io.containers.", "io.buildah.", "podman_systemd_unit"}

const (
	maxLabels     = 64
	maxLabelKey   = 128  // bytes
	maxLabelValue = 4096 // bytes
)

// CheckLabels refuses what containers can't carry as Config.Labels. All errors are a *backends.Refusal.
func CheckLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return &backends.Refusal{Reason: fmt.Sprintf("%d labels are more than %d", len(labels), maxLabels), Remedy: "give fewer labels"}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if err := checkLabel(key, labels[key]); err != nil {
			return err
		}
	}
	return nil
}

func checkLabel(key, value string) error {
	reserved := func(prefix string) bool { return strings.HasPrefix(strings.ToLower(key), prefix) }
	switch {
	case key == "" || len(key) > maxLabelKey:
		return refuseLabel(key, fmt.Sprintf("is empty or longer than %d bytes", maxLabelKey))
	case strings.ContainsFunc(key, func(r rune) bool { return !strings.ContainsRune(keyRunes, r) }):
		return refuseLabel(key, "has other characters than letters, digits and ./_-")
	case slices.ContainsFunc(reservedPrefixes, reserved):
		return refuseLabel(key, "begins as those that are not for you to set")
	case len(value) > maxLabelValue || !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuseLabel(key, fmt.Sprintf("has a value with control characters, or one longer than %d bytes", maxLabelValue))
	}
	return nil
}

const keyRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-"

func refuseLabel(key, why string) error {
	return &backends.Refusal{Reason: fmt.Sprintf("label %.200q %s", key, why), Remedy: "choose another one"}
}
