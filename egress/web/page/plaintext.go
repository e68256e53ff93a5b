package page

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// plainText returns the text of a node: a line for each block, and a blank line between paragraphs.
func plainText(n *html.Node) string {
	w := &writer{}
	w.writeNode(n)
	return strings.TrimSpace(w.b.String()) + "\n"
}

// writer joins words. Blocks request line ends, which are written before the next word.
type writer struct {
	b     strings.Builder
	lines int  // pending line ends
	space bool // pending space
	pre   int  // depth of <pre>
}

func (w *writer) writeNode(n *html.Node) {
	switch {
	case n.Type == html.TextNode:
		w.writeText(n.Data)
		return
	case n.Type == html.CommentNode:
		return
	case n.DataAtom == atom.Br:
		w.lines = max(w.lines, 1)
		return
	case n.DataAtom == atom.Img:
		w.writeText(attribute(n, "alt"))
		return
	}
	lines := blockElements[n.DataAtom]
	w.lines = max(w.lines, lines)
	if n.DataAtom == atom.Li {
		w.writeWord("- ")
		w.space = false
	}
	if n.DataAtom == atom.Td || n.DataAtom == atom.Th {
		w.space = true
	}
	if n.DataAtom == atom.Pre {
		w.pre++
		defer func() { w.pre-- }()
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		w.writeNode(c)
	}
	w.lines = max(w.lines, lines)
}

// blockElements are the elements that start and end a line, or a paragraph.
var blockElements = map[atom.Atom]int{
	atom.P: 2, atom.H1: 2, atom.H2: 2, atom.H3: 2, atom.H4: 2, atom.H5: 2, atom.H6: 2, atom.Ul: 2, atom.Ol: 2, atom.Table: 2, atom.Pre: 2,
	atom.Blockquote: 2, atom.Figure: 2, atom.Section: 2, atom.Article: 2, atom.Hr: 2, atom.Dl: 2,
	atom.Div: 1, atom.Li: 1, atom.Tr: 1, atom.Dt: 1, atom.Dd: 1, atom.Header: 1, atom.Footer: 1, atom.Nav: 1, atom.Aside: 1, atom.Main: 1,
	atom.Form: 1, atom.Fieldset: 1, atom.Figcaption: 1, atom.Details: 1, atom.Summary: 1, atom.Address: 1, atom.Option: 1,
}

func (w *writer) writeText(s string) {
	if w.pre > 0 {
		w.writeWord(s)
		return
	}
	words := strings.Fields(s)
	if len(words) == 0 {
		w.space = w.space || s != ""
		return
	}
	w.space = w.space || strings.TrimLeft(s, " \t\r\n\f") != s
	w.writeWord(strings.Join(words, " "))
	w.space = strings.TrimRight(s, " \t\r\n\f") != s
}

func (w *writer) writeWord(s string) {
	if s == "" {
		return
	}
	switch {
	case w.b.Len() == 0:
	case w.lines > 0:
		w.b.WriteString(strings.Repeat("\n", w.lines))
	case w.space:
		w.b.WriteByte(' ')
	}
	w.lines, w.space = 0, false
	w.b.WriteString(s)
}

// wordsOf returns the visible words of a page that is too malformed for a tree.
func wordsOf(text string) string {
	z := html.NewTokenizer(strings.NewReader(text))
	z.SetMaxBuf(1 << 20)
	w := &writer{}
	var unseen atom.Atom // the current invisible element
	for {
		kind := z.Next()
		name, _ := z.TagName()
		switch tag := atom.Lookup(name); {
		case kind == html.ErrorToken:
			return strings.TrimSpace(w.b.String()) + "\n"
		case unseen != 0:
			if kind == html.EndTagToken && tag == unseen {
				unseen = 0
			}
		case kind == html.TextToken:
			w.writeText(string(z.Text()))
		case kind == html.StartTagToken && slices.Contains(hiddenContent, tag):
			unseen = tag
		default:
			w.lines = max(w.lines, blockElements[tag])
		}
	}
}

// hiddenContent are the elements whose content is not visible, up to their end.
var hiddenContent = []atom.Atom{atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Textarea, atom.Noframes,
	atom.Noembed, atom.Title}
