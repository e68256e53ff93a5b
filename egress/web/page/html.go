package page

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxTags     = 400_000 // of a page that is parsed into a tree: each takes about half a kilobyte
	maxElements = 150_000 // of a page that is searched for an article
	minArticle  = 250     // letters of an article: less is a caption, or a notice about cookies
	minShare    = 5       // an article with less than 1/minShare of the page's letters is incomplete
)

func readHTML(p *Page, s Source) {
	text := decode(s.Body, s.Type)
	if n := strings.Count(text, "<"); n > maxTags {
		p.Text, p.Note = wordsOf(text), fmt.Sprintf("the page has %d tags, and only its words could be read", n)
		return
	}
	// Scripts don't run here. <noscript> is hidden, as in a browser.
	doc, err := html.ParseWithOptions(strings.NewReader(text), html.ParseOptionEnableScripting(true))
	if err != nil { // such as extreme nesting
		p.Text, p.Note = wordsOf(text), "the page is malformed HTML, and only its words could be read: "+SingleLine(err.Error(), 200)
		return
	}
	at := address(s)
	setTitle(p, doc, at)
	removeHidden(doc, hiddenClasses(doc))
	at = rebase(doc, at)
	makeLinksAbsolute(doc, at)
	content := mainContent(doc, at)
	switch s.Format {
	case Text:
		p.Text = plainText(content)
	case HTML:
		p.Text = renderHTML(content)
	default:
		p.Text = markdown(content)
	}
	if strings.TrimSpace(p.Text) == "" {
		p.Note = "the page has no text that can be read without running its scripts"
	}
}

// setTitle sets the title and the canonical address from the head of a page.
func setTitle(p *Page, doc *html.Node, at *url.URL) {
	for n := range doc.Descendants() {
		switch {
		case n.DataAtom == atom.Title && p.Title == "" && n.Namespace == "":
			p.Title = strings.TrimSpace(plainText(n))
		case n.DataAtom == atom.Link && p.Canonical == "" && strings.EqualFold(attribute(n, "rel"), "canonical"):
			u, err := at.Parse(strings.TrimSpace(attribute(n, "href")))
			if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.String() != at.String() && len(u.String()) < 2000 {
				p.Canonical = SingleLine(u.String(), 2000)
			}
		}
	}
}

// rebase returns the base of the page's links: the address of its base element, if it has one.
func rebase(doc *html.Node, at *url.URL) *url.URL {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Base {
			if u, err := at.Parse(attribute(n, "href")); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
				return u
			}
		}
	}
	return at
}

// mainContent returns the main content of a page, or all of it if no main content is found.
func mainContent(doc *html.Node, at *url.URL) *html.Node {
	whole := doc
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Body {
			whole = n
			break
		}
	}
	parser := readability.NewParser()
	parser.MaxElemsToParse = maxElements
	parser.DisableJSONLD = true
	found, err := findArticle(parser, doc, at)
	if err != nil || found.Node == nil {
		return whole
	}
	if n := countLetters(found.Node); n < minArticle || n < countLetters(whole)/minShare {
		return whole
	}
	return found.Node
}

// findArticle calls the parser, and recovers from its panics.
func findArticle(p readability.Parser, doc *html.Node, at *url.URL) (found readability.Article, err error) {
	defer func() {
		if recover() != nil {
			found = readability.Article{}
		}
	}()
	return p.ParseDocument(doc, at)
}

func markdown(n *html.Node) (text string) {
	defer func() {
		if recover() != nil {
			text = plainText(n)
		}
	}()
	b, err := converter.NewConverter(
		converter.WithEscapeMode(converter.EscapeModeDisabled), // a_name must stay a_name, for readers and for secret scanners
		converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()),
	).ConvertNode(n)
	if err != nil {
		return plainText(n)
	}
	return strings.TrimSpace(string(b)) + "\n"
}

func renderHTML(n *html.Node) string {
	var b bytes.Buffer
	if err := html.Render(&b, n); err != nil {
		return plainText(n)
	}
	return b.String()
}

// countLetters counts the bytes of a node's words.
func countLetters(n *html.Node) (sum int) {
	for n := range n.Descendants() {
		if n.Type == html.TextNode {
			sum += len(strings.TrimSpace(n.Data))
		}
	}
	return sum
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}
