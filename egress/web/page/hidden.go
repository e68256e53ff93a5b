package page

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// silentElements are elements whose content is not visible as text.
var silentElements = []atom.Atom{
	atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Object, atom.Embed, atom.Applet, atom.Canvas, atom.Svg, atom.Math,
	atom.Audio, atom.Video, atom.Noframes, atom.Noembed, atom.Datalist, atom.Select, atom.Input, atom.Textarea, atom.Meta, atom.Link,
}

// removeHidden removes elements and attributes that are not visible on the page. Text that is hidden by an external
// style sheet, a script, a picture or its colour is not recognized, since that needs a browser.
func removeHidden(n *html.Node, hidden []string) {
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool {
		return !slices.Contains([]string{"href", "src", "alt", "title", "class", "id", "start", "lang", "dir", "datetime", "role", "itemprop",
			"rel", "type"}, a.Key)
	})
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && isInvisible(c, hidden) {
			n.RemoveChild(c)
		} else {
			removeHidden(c, hidden)
		}
		c = next
	}
}

func isInvisible(n *html.Node, hidden []string) bool {
	if slices.Contains(silentElements, n.DataAtom) || n.Data == "math" || n.Data == "svg" {
		return true
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return a.Val != "until-found"
		case "style":
			if isHiding(a.Val) {
				return true
			}
		case "class":
			if len(hidden) > 0 && slices.ContainsFunc(strings.Fields(a.Val), func(c string) bool { return slices.Contains(hidden, "."+c) }) {
				return true
			}
		case "id":
			if slices.Contains(hidden, "#"+a.Val) {
				return true
			}
		case "open":
			if n.DataAtom == atom.Dialog {
				return false
			}
		}
	}
	return n.DataAtom == atom.Dialog
}

var (
	comment   = lazy.Regexp(`(?s)/\*.*?\*/`)
	zero      = lazy.Regexp(`^(?:0+(?:\.0*)?|\.0+)(?:[a-z%]*)?$`)
	offscreen = lazy.Regexp(`^-\d{3,}`)
	emptied   = lazy.Regexp(`^rect\(\s*[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?\s*\)$|^inset\(\s*(?:50|100)%`)
	selector  = lazy.Regexp(`([.#][A-Za-z0-9_-]+)\s*$`)
	rule      = lazy.Regexp(`([^{}]+)\{([^{}]*)\}`)
)

// isHiding reports whether a style hides its element: not displayed, without size, or off the page.
func isHiding(style string) bool {
	size := map[string]bool{}
	for one := range strings.SplitSeq(comment().ReplaceAllString(strings.ToLower(style), ""), ";") {
		name, value, _ := strings.Cut(one, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "!important"))
		switch name {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility", "content-visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "opacity", "font-size", "zoom":
			if zero().MatchString(value) {
				return true
			}
		case "color", "-webkit-text-fill-color":
			if value == "transparent" {
				return true
			}
		case "left", "right", "top", "bottom", "text-indent", "margin-left", "margin-top":
			if offscreen().MatchString(value) {
				return true
			}
		case "clip", "clip-path":
			if emptied().MatchString(value) {
				return true
			}
		case "width", "height", "max-width", "max-height", "line-height":
			size[name] = zero().MatchString(value)
		case "overflow", "overflow-x", "overflow-y":
			size["overflow"] = value == "hidden" || value == "clip"
		case "transform":
			if strings.Contains(value, "scale(0)") {
				return true
			}
		}
	}
	return size["overflow"] && (size["width"] || size["height"] || size["max-width"] || size["max-height"]) || size["width"] && size["height"]
}

// hiddenClasses returns the classes and ids that the page's own style sheets hide with simple rules, the usual way
// besides attributes.
func hiddenClasses(doc *html.Node) (all []string) {
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Style || n.FirstChild == nil {
			continue
		}
		sheet := comment().ReplaceAllString(n.FirstChild.Data, "")
		if strings.Contains(sheet, "@media") { // another screen may show the text
			sheet, _, _ = strings.Cut(sheet, "@media")
		}
		for _, r := range rule().FindAllStringSubmatch(sheet, 2000) {
			if !isHiding(r[2]) {
				continue
			}
			for one := range strings.SplitSeq(r[1], ",") {
				one = strings.TrimSpace(one)
				if m := selector().FindStringSubmatch(one); m != nil && m[1] == one && len(all) < 1000 {
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// makeLinksAbsolute makes the addresses of links absolute, and removes links to scripts and inline data.
func makeLinksAbsolute(doc *html.Node, at *url.URL) {
	for n := range doc.Descendants() {
		attributes := n.Attr[:0]
		for _, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" {
				u, err := at.Parse(strings.TrimSpace(a.Val))
				if err != nil || len(a.Val) >= 4000 || !slices.Contains([]string{"http", "https", "mailto"}, strings.ToLower(u.Scheme)) {
					continue
				}
				a.Val = u.String()
			}
			attributes = append(attributes, a)
		}
		n.Attr = attributes
	}
}
