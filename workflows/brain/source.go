package brain

import (
	"context"
	"slices"
	"strings"

	"pawl/internal/text"
	"pawl/ports/index"
)

// Source is a port: where data for an answer is looked up. It is called inside pawl.Do, once for every SourceSpec of its type.
type Source interface {
	Look(ctx context.Context, q SourceSpec) ([]Piece, error)
}

// Piece is something that was found, or that a tool said. It is untrusted text.
type Piece struct {
	Source string  `json:"source"`          // the type of the source, or the tool's name
	ID     string  `json:"id,omitempty"`    // where it is from
	Title  string  `json:"title,omitempty"` // of the document
	Text   string  `json:"text"`
	Score  float64 `json:"score,omitempty"`  // 0 to 1, comparable within one source
	Failed bool    `json:"failed,omitempty"` // a tool's own word for what it says
}

// What is kept of what was found.
const (
	maxPiece = 4_000  // characters of one piece
	maxData  = 24_000 // characters of all that one prompt shows
	filtered = 200    // documents that are looked through where a filter leaves some out
)

// Knowledge looks a question up in an index whose documents are those of Documents.
type Knowledge struct{ Index index.Index }

// Look gives the pieces that fit best. The filter path leaves one document, or those of one folder.
func (k Knowledge) Look(ctx context.Context, q SourceSpec) ([]Piece, error) {
	path, most := strings.TrimSuffix(q.Filters["path"], "/"), q.Limit
	if path != "" {
		most = max(most, filtered)
	}
	r, err := k.Index.Search(ctx, index.Query{Text: q.Query, K: most})
	if err != nil {
		return nil, err
	}
	var out []Piece
	for _, h := range r.Hits {
		file, _, _ := strings.Cut(h.ID, "#")
		if path != "" && file != path && !strings.HasPrefix(file, path+"/") {
			continue
		}
		if len(out) == q.Limit {
			break
		}
		out = append(out, Piece{Source: q.SourceType, ID: h.ID, Title: h.Title, Text: h.Text, Score: h.Score})
	}
	return out, nil
}

// bounded are the first pieces that a source gives, none of them too long.
func bounded(pieces []Piece, most int) []Piece {
	pieces = slices.Clone(pieces[:min(len(pieces), most)])
	for i := range pieces {
		pieces[i].Text = cut(pieces[i].Text)
	}
	return pieces
}

// cut is a text that is as long as a piece may be, and says where it is not whole.
func cut(s string) string {
	if short, was := text.Clip(s, maxPiece); was {
		return short + " [cut here]"
	}
	return s
}

// lastTurns are what a conversation_history gives: the last of what was said, to be shown to the model as it was said.
func lastTurns(history []Turn, most int) []Turn { return history[max(0, len(history)-most):] }
