package brain

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"pawl/internal/text"
	"pawl/ports/index"
)

const (
	pieceLength = 1_200 // characters that a piece of a document has, about
	titleLength = 120
)

// Documents cuts one text into pieces that can be found: at headings and between paragraphs, and where a paragraph is too long,
// wherever the length is reached. The id of a piece is the text's name, # and a number.
func Documents(name, body string) []index.Document {
	heading, title := "", name
	var docs []index.Document
	var piece strings.Builder
	flush := func() {
		if s := strings.TrimSpace(piece.String()); s != "" {
			docs = append(docs, index.Document{ID: fmt.Sprintf("%s#%d", name, len(docs)+1), Title: title, Text: s})
		}
		piece.Reset()
	}
	body = strings.ReplaceAll(strings.ToValidUTF8(body, "\uFFFD"), "\r\n", "\n")
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		if h, ok := headingOf(paragraph); ok && h != heading {
			flush()
			heading = h
			title, _ = text.Clip(h, titleLength)
		}
		if piece.Len() > 0 && utf8.RuneCountInString(piece.String())+utf8.RuneCountInString(paragraph) > pieceLength {
			flush()
		}
		for utf8.RuneCountInString(paragraph) > pieceLength {
			head, _ := text.Clip(paragraph, pieceLength)
			if at := strings.LastIndexAny(head, " \n\t"); at > len(head)/2 {
				head = head[:at]
			}
			piece.WriteString(head)
			flush()
			paragraph = paragraph[len(head):]
		}
		piece.WriteString(strings.TrimRight(paragraph, " \n\t") + "\n\n")
	}
	flush()
	return docs
}

// headingOf is the heading with which a paragraph begins, if it is one of Markdown.
func headingOf(paragraph string) (string, bool) {
	line, _, _ := strings.Cut(strings.TrimSpace(paragraph), "\n")
	rest := strings.TrimLeft(line, "#")
	if rest == line || !strings.HasPrefix(rest, " ") {
		return "", false
	}
	return strings.TrimSpace(rest), true
}
