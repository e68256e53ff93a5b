package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// value is the value of a setting in one source.
type value struct {
	words   []string // one word, unless it was a list
	list    bool
	numbers error  // error for a list of text that contains numbers; nil if it contains none
	tag     string // YAML's type, such as "!!int"; "" for sources without types
	home    string // replaces ~ in paths; "" if unknown
	dir     string // base of relative paths; "" forbids them
}

// setting is a key of the configuration.
type setting struct {
	key   string // with dots
	env   string // without SANDBOXMCP_; "" if no variable sets it
	about string // one sentence without a full stop
	kind
}

// kind reads and prints the value of one field of a Config.
type kind struct {
	takes string // the valid values, for the reference
	set   func(value) error
	show  func() string
}

// alwaysTrue is the value of a setting that can't be switched off.
type alwaysTrue struct{}

// settings returns all settings of c in display order. With initial, it sets them to the defaults that are the same on
// all machines; a test checks that each default is a valid value.
func settings(c *Config, initial bool) []setting {
	all := fieldsOf(nil, "", reflect.ValueOf(c).Elem(), initial)
	for i := range all {
		if name, is := strings.CutPrefix(all[i].key, "caps."); is {
			all[i].about = "the highest limits." + name + " that a caller can ask for"
		}
		switch all[i].key {
		case "limits.timeout_seconds":
			all[i].env = "TIMEOUT"
		case "caps.ram_mb":
			all[i].env = "MAX_RAM_MB"
		}
	}
	return all
}

// fieldsOf adds the settings of the fields of a struct; their keys begin with prefix.
func fieldsOf(all []setting, prefix string, of reflect.Value, initial bool) []setting {
	for i := range of.NumField() {
		tag, field := of.Type().Field(i).Tag, of.Field(i)
		key, is := tag.Lookup("key")
		if of.Type().Field(i).Anonymous {
			all = fieldsOf(all, prefix, field, initial)
		}
		if !is {
			continue
		}
		about := tag.Get("about")
		if about == "" && field.Kind() == reflect.Struct {
			all = fieldsOf(all, prefix+key+".", field, initial)
			continue
		}
		all = append(all, setting{prefix + key, tag.Get("env"), about, kindOf(tag, field.Addr().Interface())})
		text, named := tag.Lookup("default")
		switch {
		case !named || !initial:
		case field.Kind() == reflect.String:
			field.SetString(text)
		case field.Kind() == reflect.Slice:
			field.Set(reflect.ValueOf(strings.Split(text, ",")))
		default:
			_ = json.Unmarshal([]byte(text), field.Addr().Interface())
		}
	}
	return all
}

// kindOf returns the kind of a field.
func kindOf(tag reflect.StructTag, field any) kind {
	known := strings.Fields(tag.Get("oneof"))
	switch of := field.(type) {
	case *alwaysTrue:
		return alwaysOnKind()
	case *bool:
		return boolKind(of)
	case *int:
		return numberKind(tag, of)
	case *int64:
		return numberKind(tag, of)
	case *float64:
		return numberKind(tag, of)
	case *[]int:
		return portsKind(of)
	case *[]string:
		if len(known) > 0 {
			return choiceKind(known, of)
		}
		return lists()[tag.Get("is")](of)
	case *string:
		if len(known) > 0 {
			return wordKind(known, of)
		}
		if example := tag.Get("url"); example != "" {
			return addressKind(example, of)
		}
		return texts()[tag.Get("is")](of)
	}
	panic("config: there is no kind for a field with the tag " + string(tag))
}

// Named kinds of lists and of texts.
var (
	lists = sync.OnceValue(func() map[string]func(*[]string) kind {
		return map[string]func(*[]string) kind{"": listKind, "stores": storesKind, "directories": directoriesKind, "labels": labelsKind,
			"gpus": gpusKind}
	})
	texts = sync.OnceValue(func() map[string]func(*string) kind {
		return map[string]func(*string) kind{
			"": textKind, "backend": func(of *string) kind { return wordKind(backendNames(), of) }, "profile": profileKind, "resolver": resolverKind,
			"author": func(of *string) kind { return checkedKind(None+", NAME <EMAIL>", None, of, checkAuthor) },
			"path":   pathKind, "path or none": func(of *string) kind { return pathOrKind(None, of) }, "path or auto": func(of *string) kind {
				return pathOrKind(Found, of)
			},
			"secret": secretNameKind, "listen": listenKind, "domain": domainKind,
			"image": func(of *string) kind { return checkedKind("an image", "", of, CheckImage) }, "image or none": func(of *string) kind {
				return checkedKind(None+", an image", None, of, CheckImage)
			},
			"podman": func(of *string) kind { return engineKind("podman", []string{"unix", "ssh", "tcp"}, of) },
			"docker": func(of *string) kind {
				return engineKind("docker", []string{"unix", "ssh", "tcp", "http", "https", "npipe"}, of)
			},
		}
	})
)

// checkedKind returns the kind of a text that check accepts. The word none, if not empty, stands for "".
func checkedKind(takes, none string, of *string, check func(text string) error) kind {
	return kind{takes, func(v value) error {
		text, err := v.text()
		if text == none {
			text = ""
		} else if err == nil {
			err = check(text)
		}
		if err == nil {
			*of = text
		}
		return err
	}, func() string { return yamlWord(cmp.Or(*of, none)) }}
}

// SplitAuthor returns the parts of an author in git's form, NAME <EMAIL>, or empty strings for another form.
func SplitAuthor(text string) (name, email string) {
	rest, closed := strings.CutSuffix(text, ">")
	name, email, found := strings.Cut(rest, " <")
	if !closed || !found || name == "" || email == "" || strings.ContainsAny(name+email, "<>\n\x00") {
		return "", ""
	}
	return name, email
}

// checkAuthor refuses characters that git can't store in a commit.
func checkAuthor(text string) error {
	if name, _ := SplitAuthor(text); name == "" {
		return fmt.Errorf("%.200q is not an author: write one as git does, Ada Lovelace <ada@example.com>", text)
	}
	return nil
}

// wordKind returns the kind of one of the known words.
func wordKind(known []string, of *string) kind {
	return checkedKind(strings.Join(known, ", "), "", of, func(text string) error {
		if !slices.Contains(known, text) {
			return fmt.Errorf("%q is not known%s: use %s", text, spelling.DidYouMean(text, known), quotedChoices(known))
		}
		return nil
	})
}

// numberKind returns the kind of a number in the range of a tag. It must be whole unless T is float64.
func numberKind[T int | int64 | float64](tag reflect.StructTag, of *T) kind {
	from, to, _ := strings.Cut(tag.Get("range"), "..")
	return kind{from + " to " + to, func(v value) error {
		n, err := v.number()
		lower, _ := strconv.ParseFloat(from, 64) // a test parses all ranges
		upper, _ := strconv.ParseFloat(to, 64)
		switch {
		case err != nil:
			return err
		case n != float64(T(n)):
			return fmt.Errorf("%s is not a whole number", formatDecimal(n))
		case n < lower || n > upper:
			return fmt.Errorf("%s is out of range: %s to %s", formatDecimal(n), from, to)
		}
		*of = T(n)
		return nil
	}, func() string { return formatDecimal(float64(*of)) }}
}

func formatDecimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// boolKind returns the kind of a boolean.
func boolKind(of *bool) kind {
	return kind{"true, false", func(v value) error {
		b, err := v.boolean()
		if err == nil {
			*of = b
		}
		return err
	}, func() string { return strconv.FormatBool(*of) }}
}

// listKind returns the kind of a list of texts, which may be empty in a file.
func listKind(of *[]string) kind {
	return checkedListKind("a list", of, func(string, []string) error { return nil })
}

// checkedListKind returns the kind of a list of texts. check gets each with those before it.
func checkedListKind(takes string, of *[]string, check func(word string, before []string) error) kind {
	return kind{takes, func(v value) error {
		if v.list && len(v.words) == 0 {
			*of = nil
			return nil
		}
		words, err := v.wordList()
		for i, word := range words {
			if err == nil {
				err = check(word, words[:i])
			}
		}
		*of = words
		return err
	}, func() string { return yamlList(*of) }}
}

// System is the word for this machine's own resolver.
const System = "system"

// portsKind returns the kind of a list of TCP ports.
func portsKind(of *[]int) kind {
	return kind{"a list of ports", func(v value) error {
		v.numbers = nil // numbers are valid here
		if v.tag == "!!int" {
			v.tag = ""
		}
		var words []string
		var err error
		if len(v.words) > 0 {
			if words, err = v.wordList(); err != nil {
				return err
			}
		}
		var all []int
		for _, w := range words {
			port, err := strconv.Atoi(w)
			if err != nil || port < 1 || port > 65535 {
				return fmt.Errorf("%q is not a port: write numbers from 1 to 65535", w)
			}
			all = append(all, port)
		}
		*of = all
		return nil
	}, func() string { return strings.ReplaceAll(fmt.Sprint(*of), " ", ", ") }}
}

// resolverKind returns the kind of a DNS server's address. A name would need a resolver.
func resolverKind(of *string) kind {
	k := checkedKind(System+", ADDRESS, ADDRESS:PORT", "", of, func(text string) error {
		_, plain := netip.ParseAddr(text)
		if _, port := netip.ParseAddrPort(text); text != System && plain != nil && port != nil {
			return fmt.Errorf("%q is not an address: write one like 10.0.0.2, 10.0.0.2:5353 or [fd00::2]:53, or %s", text, System)
		}
		return nil
	})
	return unquotedKind(k, of)
}

// unquotedKind returns k with a value that is printed without quotes.
func unquotedKind(k kind, of *string) kind {
	k.show = func() string { return *of }
	return k
}

// storesKind returns the kind of the vault's stores, each at most once.
func storesKind(of *[]string) kind {
	known := []string{"environment", "sealed", "keyring", "memory"}
	return checkedListKind("a list of "+strings.Join(known, ", "), of, func(name string, before []string) error {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("%q is not a secret store%s: use %s", name, spelling.DidYouMean(name, known), quotedChoices(known))
		case slices.Contains(before, name):
			return fmt.Errorf("store %s is listed twice", name)
		}
		return nil
	})
}

// profileKind returns the kind of the default profile. Whether it exists is checked at the end.
func profileKind(of *string) kind {
	return unquotedKind(checkedKind(Hardened+", "+Landlock+", a name below profiles", "", of, func(string) error { return nil }), of)
}

// pathKind returns the kind of a path, made absolute by value.path.
func pathKind(of *string) kind {
	return kind{"a path", func(v value) error {
		text, err := v.text()
		if err == nil {
			*of, err = v.absolutePath(text)
		}
		return err
	}, func() string { return *of }}
}

// absolutePath makes text absolute. A relative path in a file is an error: its meaning would depend on the working directory.
func (v value) absolutePath(text string) (string, error) {
	switch rest, inHome := strings.CutPrefix(text, "~/"); {
	case strings.ContainsRune(text, 0):
		return "", errors.New("a path can't contain NUL bytes")
	case text == ":memory:":
		return "", errors.New("the database must be a file: rows must survive a restart")
	case inHome && v.home == "":
		return "", errors.New("the home directory is unknown: write an absolute path")
	case inHome:
		return filepath.Join(v.home, rest), nil
	case filepath.IsAbs(text):
		return filepath.Clean(text), nil
	case v.dir == "":
		return "", fmt.Errorf("%q is relative: write an absolute path, or one that begins with ~/", text)
	default:
		return filepath.Join(v.dir, text), nil
	}
}
