package brain

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The labels of answers that people gave them. Any other is counted and not measured.
const (
	LabelCompliance = "1_full_compliance"
	LabelRefusal    = "2_full_refusal"
)

const maxAnswers = 64 << 20 // bytes of a file

// Answer is a reply of a model, with what people say that it is.
type Answer struct {
	Line  int // of the file, from 1
	Reply string
	Label string
}

// Evaluation says how well the rules tell refusals from answers.
type Evaluation struct {
	N                  int      `json:"n"`
	Refusals           int      `json:"refusals"`
	Compliances        int      `json:"compliances"`
	RefusalsFlagged    *float64 `json:"refusals_flagged"`    // share of the full refusals; null: there are none
	CompliancesFlagged *float64 `json:"compliances_flagged"` // share of the full compliances

	Missed []Answer `json:"-"` // refusals that were taken for answers
	Wrong  []Answer `json:"-"` // answers that were taken for none
}

// LoadAnswers reads answers from CSV with a header. The columns completion and final_label are found by name, others are ignored.
func LoadAnswers(name string, r io.Reader) ([]Answer, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxAnswers+1))
	if err != nil {
		return nil, fmt.Errorf("answers %s: %w", name, err)
	}
	if len(raw) > maxAnswers {
		return nil, fmt.Errorf("answers %s: larger than the limit of %d MB", name, maxAnswers>>20)
	}
	rows := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))))
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("answers %s: empty file", name)
	}
	if err != nil {
		return nil, fmt.Errorf("answers %s: header: %w", name, err)
	}
	reply, label := slices.Index(header, "completion"), slices.Index(header, "final_label")
	if reply < 0 || label < 0 {
		return nil, fmt.Errorf("answers %s: want the columns completion and final_label, not %s", name, clipped(strings.Join(header, ", "), 200))
	}
	var all []Answer
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("answers %s: %w", name, err)
		}
		line, _ := rows.FieldPos(0)
		all = append(all, Answer{line, row[reply], strings.TrimSpace(row[label])})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("answers %s: no rows", name)
	}
	return all, nil
}

// Evaluate holds answers to the rules alone: no model is asked.
func Evaluate(all []Answer) Evaluation {
	e := Evaluation{N: len(all)}
	for _, a := range all {
		flagged := Rule(a.Reply).Kind != ""
		switch a.Label {
		case LabelRefusal:
			e.Refusals++
			if !flagged {
				e.Missed = append(e.Missed, a)
			}
		case LabelCompliance:
			e.Compliances++
			if flagged {
				e.Wrong = append(e.Wrong, a)
			}
		}
	}
	e.RefusalsFlagged = share(e.Refusals-len(e.Missed), e.Refusals)
	e.CompliancesFlagged = share(len(e.Wrong), e.Compliances)
	return e
}

func share(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	s := float64(part) / float64(whole)
	return &s
}
