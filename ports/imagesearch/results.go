package imagesearch

import (
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Results are the first count of what a source has answered. What lacks an address, or has one that is none of the web or too long, is left out,
// and so is a picture that was there before. One item of a strange form is left out too; where all are, the source does not speak as
// described, and that nothing was found would be a lie.
func Results[Item any](source string, raw []json.RawMessage, count int, as func(Item) Result) ([]Result, error) {
	var out []Result
	known := false
	for _, r := range raw {
		var item Item
		if err := json.Unmarshal(r, &item); err != nil || string(r) == "null" {
			continue
		}
		known = true
		found := as(item)
		found.Title = line(found.Title)
		if !web(found.ThumbnailURL) {
			found.ThumbnailURL = ""
		}
		seen := slices.ContainsFunc(out, func(r Result) bool { return r.ImageURL == found.ImageURL })
		if len(out) < count && !seen && web(found.ImageURL) && web(found.ContextURL) {
			out = append(out, found)
		}
	}
	if len(raw) > 0 && !known {
		return nil, Strange(source, "no result of a known form")
	}
	return out, nil
}

// web says whether an address is one of the web, and no longer than any that is fetched.
func web(address string) bool {
	u, err := url.Parse(address)
	return err == nil && len(address) <= MaxURL && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

// mostTitle is how many characters of a title are kept.
const mostTitle = 300

// line is a text of others in one bounded line.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > mostTitle {
		text = string(runes[:mostTitle]) + "…"
	}
	return text
}

// mostMarkup is how many bytes of HTML are read for a title.
const mostMarkup = 10_000

// Plain is the text of a piece of HTML, such as a title: without tags, and with what entities stand for. Text that was never HTML
// stays as it is, but for what looks like a tag.
func Plain(markup string) string {
	markup = markup[:min(len(markup), mostMarkup)]
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(markup, "<")
		out.WriteString(before)
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, ">")
		if !closed || !tag(inside) {
			out.WriteByte('<')
			markup = rest
			continue
		}
		markup = after
	}
	return html.UnescapeString(out.String())
}

// tag says whether what stands between angle brackets begins as a tag does.
func tag(inside string) bool {
	inside = strings.TrimPrefix(inside, "/")
	return inside != "" && (inside[0] == '!' || 'a' <= inside[0]|0x20 && inside[0]|0x20 <= 'z')
}
