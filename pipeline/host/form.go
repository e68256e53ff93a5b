package host

import "strings"

// form is a subcommand with its options, as in "log -p -n* --oneline --since=*":
//
//	-p         a letter, which may stand together with others: -pz
//	-n*        a letter with a value, which may be joined: -n5
//	-name      a word that begins with one dash, as find(1) has them; with a * its value is the next word
//	--oneline  a whole word
//	--since=*  a word that may have a value, joined by =
//
// A value in a word of its own is an operand to us: unlike the program, we look at it, and refuse it when it begins
// with a dash and is no option of the form.
type form struct {
	name    string
	letters map[byte]bool   // with a value or not
	words   map[string]bool // likewise
}

func newForm(text string) form {
	name, options, _ := strings.Cut(text, " ")
	f := form{name: name, letters: map[byte]bool{}, words: map[string]bool{}}
	for _, o := range strings.Fields(options) {
		if long, valued := strings.CutSuffix(o, "=*"); valued || strings.HasPrefix(o, "--") {
			f.words[long] = valued
			continue
		}
		short, valued := strings.CutSuffix(o, "*")
		if len(short) == 2 {
			f.letters[short[1]] = valued
			continue
		}
		f.words[short] = false
	}
	return f
}

// takes reports whether a word that begins with a dash is made of options of the form.
func (f form) takes(word string) bool {
	if word == "-" {
		return true // standard input
	}
	name, _, joined := strings.Cut(word, "=")
	if valued, ok := f.words[name]; ok && (valued || !joined) {
		return true
	}
	if strings.HasPrefix(word, "--") {
		return false
	}
	for i := 1; i < len(word); i++ {
		valued, ok := f.letters[word[i]]
		switch {
		case !ok:
			return f.letters['n'] && isCount(word)
		case valued:
			return true
		}
	}
	return true
}

// isCount is -5, which git log and tail know.
func isCount(word string) bool { return len(word) > 1 && strings.Trim(word[1:], "0123456789") == "" }

// refused returns the first word that the form does not have.
func (f form) refused(args []string, operand func(form, word string) bool) (string, bool) {
	ended := false
	for _, word := range args {
		switch {
		case word == "--" && !ended:
			ended = true
		case !ended && strings.HasPrefix(word, "-"):
			if !f.takes(word) {
				return word, true
			}
		case operand != nil && !operand(f.name, word):
			return word, true
		}
	}
	return "", false
}
