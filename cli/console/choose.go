package console

import (
	"context"
	"strings"
)

// Choose asks a question, whose answers are words such as "apply", until done reports that the typed one, whole or by
// its first letter, has settled it. An empty line, and the end of the terminal, stand for the last word.
func (t *Console) Choose(ctx context.Context, question string, words []string, done func(word string) bool) {
	last := words[len(words)-1]
	prompt := question + " [" + strings.Join(words, ", ") + "] "
	if !t.acquire(ctx) {
		done(last)
		return
	}
	defer t.release()
	t.writeText(ctx, resetTerminal+prompt)
	if t.collectEarly(ctx) {
		t.writeText(ctx, prompt)
	}
	for {
		line, err := t.readLine(ctx)
		typed := strings.ToLower(strings.TrimSpace(line))
		if typed == "" || err != nil {
			typed = last
		}
		for _, word := range words {
			if (typed == word || typed == word[:1]) && (done(word) || word == last) {
				return
			}
		}
		t.writeText(ctx, prompt)
	}
}
