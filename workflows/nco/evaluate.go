package nco

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"pawl"
	"pawl/internal/text"
)

// What is known of a query: whether a person has to be asked before it can be coded.
const (
	NeedsYes      = "yes"
	NeedsNo       = "no"
	NeedsOptional = "optional" // both are right
)

const (
	maxGold  = 64 << 20 // bytes of a file of queries
	goldBest = 5        // candidates that are looked at
)

// Gold is one query with what is right for it. What is empty is not known.
type Gold struct {
	Line     int // of the file, from 1
	Text     string
	Language string
	Category string
	Codes    []string // NNNN.NNNN, each of them right
	Families []string // NNNN, each of them right
	Needs    string   // NeedsYes, NeedsNo, NeedsOptional
}

// The columns of the two layouts that LoadGold reads.
var (
	goldReviewed = []string{"query", "language", "category", "accept_codes", "accept_family4", "needs_clarification"}
	goldTitles   = []string{"job_title", "isco08_gold"}
)

// LoadGold reads queries from CSV with a header. Columns are found by name, others are ignored. There are two layouts:
// query, language, category, accept_codes, accept_family4 (each codes with spaces between), needs_clarification (yes, no,
// optional); and job_title, isco08_gold. Every bad row is found, and a file with one is refused whole.
func LoadGold(name string, r io.Reader) ([]Gold, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxGold+1))
	if err != nil {
		return nil, fmt.Errorf("queries %s: %w", name, err)
	}
	if len(raw) > maxGold {
		return nil, fmt.Errorf("queries %s: larger than the limit of %d MB", name, maxGold>>20)
	}
	if bytes.HasPrefix(raw, []byte{0xFF, 0xFE}) || bytes.HasPrefix(raw, []byte{0xFE, 0xFF}) {
		return nil, fmt.Errorf("queries %s: UTF-16; save it as UTF-8", name)
	}
	rows := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))))
	rows.FieldsPerRecord = -1 // ragged rows are our finding, with their line
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("queries %s: empty file", name)
	}
	if err != nil {
		return nil, fmt.Errorf("queries %s: header: %w", name, err)
	}
	at, err := goldColumns(header)
	if err != nil {
		return nil, fmt.Errorf("queries %s: %w", name, err)
	}
	g := goldFile{width: len(header), at: at}
	if err := g.read(rows); err != nil {
		return nil, fmt.Errorf("queries %s is refused: %w", name, err)
	}
	if len(g.all) == 0 {
		return nil, fmt.Errorf("queries %s: no rows", name)
	}
	return g.all, nil
}

// goldColumns says where a layout's columns are; the error names the columns that there are.
func goldColumns(header []string) (map[string]int, error) {
	names := make([]string, len(header))
	for i, h := range header {
		names[i] = text.Key(h)
	}
	at := map[string]int{}
	missing := map[string][]string{}
	for _, layout := range [][]string{goldReviewed, goldTitles} {
		for _, want := range layout {
			i := slices.Index(names, want)
			if i < 0 {
				missing[layout[0]] = append(missing[layout[0]], want)
				continue
			}
			at[want] = i
		}
		if missing[layout[0]] == nil {
			for _, want := range layout { // only of what is read it matters which one is meant
				if slices.Contains(names[at[want]+1:], want) {
					return nil, fmt.Errorf("two columns %s", want)
				}
			}
			for _, other := range slices.Concat(goldReviewed, goldTitles) {
				if !slices.Contains(layout, other) {
					delete(at, other) // of the other layout, of which not all is there
				}
			}
			return at, nil
		}
	}
	shown, _ := text.Clip(strings.Join(names, ", "), 300)
	lacks := missing["query"]
	if len(missing["job_title"]) == 1 {
		lacks = missing["job_title"]
	}
	return nil, fmt.Errorf("unknown layout: no column %s (the header has: %s); there are two: %s; or %s", strings.Join(lacks, ", "), shown,
		strings.Join(goldReviewed, ", "), strings.Join(goldTitles, ", "))
}

// goldFile reads the rows of one file.
type goldFile struct {
	width  int
	at     map[string]int
	all    []Gold
	faults []string // the first of them
	total  int
}

func (g *goldFile) read(rows *csv.Reader) error {
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			g.fault(bad.StartLine, bad.Err.Error())
			continue
		}
		if err != nil {
			return err
		}
		line, _ := rows.FieldPos(0)
		q, why := g.row(row)
		if why != "" {
			g.fault(line, why)
			continue
		}
		q.Line = line
		g.all = append(g.all, q)
	}
	switch more := g.total - len(g.faults); {
	case g.total == 0:
		return nil
	case more > 0:
		g.faults = append(g.faults, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("bad rows: %d\n  %s", g.total, strings.Join(g.faults, "\n  "))
}

func (g *goldFile) fault(line int, why string) {
	g.total++
	if len(g.faults) < maxFaults {
		g.faults = append(g.faults, fmt.Sprintf("line %d: %s", line, why))
	}
}

// row reads one row, or says what is wrong with it.
func (g *goldFile) row(row []string) (q Gold, why string) {
	if len(row) != g.width {
		return q, fmt.Sprintf("%d fields, the header has %d", len(row), g.width)
	}
	field := func(name string) string {
		if i, ok := g.at[name]; ok {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	q.Text = field("query") + field("job_title") // one of the two is there
	q.Language, q.Category, q.Needs = field("language"), field("category"), text.Key(field("needs_clarification"))
	q.Codes, q.Families = strings.Fields(field("accept_codes")), strings.Fields(field("accept_family4")+" "+field("isco08_gold"))
	if why := unreadable(q.Text); why != "" {
		return q, "the query: " + why
	}
	if text.Key(q.Text) == "" {
		return q, "the query is empty"
	}
	for _, code := range q.Codes {
		if read, padded, ok := readCode(code); !ok || padded || len(read) != 9 {
			shown, _ := text.Clip(code, 40)
			return q, fmt.Sprintf("code %q: want NNNN.NNNN, spaces between several", shown)
		}
	}
	for _, family := range q.Families {
		if len(family) != 4 || !digits(family) {
			shown, _ := text.Clip(family, 40)
			return q, fmt.Sprintf("family %q: want NNNN, spaces between several", shown)
		}
	}
	if _, asks := g.at["needs_clarification"]; asks && q.Needs != NeedsYes && q.Needs != NeedsNo && q.Needs != NeedsOptional {
		shown, _ := text.Clip(field("needs_clarification"), 40)
		return q, fmt.Sprintf("needs_clarification %q: want %s, %s or %s", shown, NeedsYes, NeedsNo, NeedsOptional)
	}
	return q, ""
}

// Score is what was measured of some queries: shares from 0 to 1, nil where no query says what would be right.
type Score struct {
	N                int      `json:"n"`
	Top1Code         *float64 `json:"top1_8"` // a right code is the first candidate
	Top5Code         *float64 `json:"top5_8"` // it is among the first five
	Top1Family       *float64 `json:"top1_4"` // the same for the family, the first four digits
	Top5Family       *float64 `json:"top5_4"`
	AskedWhenUnclear *float64 `json:"asked_when_unclear"` // of the queries that need a question, those that got one
	AskedWhenClear   *float64 `json:"asked_when_clear"`   // of those that need none
}

// Measured is one query with what the agent made of it.
type Measured struct {
	Gold
	Candidates []Candidate // best first, at most five
	Status     Status      // MATCH_FOUND or MORE_INFO
	Question   string      // of MORE_INFO
}

// Evaluation is what was measured of all queries, and of those of each language and category that a query names.
type Evaluation struct {
	All        Score            `json:"all"`
	ByLanguage map[string]Score `json:"byLanguage"`
	ByCategory map[string]Score `json:"byCategory"`
	Rows       []Measured       `json:"-"`
}

// Evaluate lets the agent rank and code every query, without asking anybody. It fails where the agent does, with the line
// of the query.
func (a Agent) Evaluate(ctx context.Context, queries []Gold) (Evaluation, error) {
	a = a.settled()
	a.Turns = -1
	g := Graph(a)
	v := Evaluation{ByLanguage: map[string]Score{}, ByCategory: map[string]Score{}}
	for _, q := range queries {
		candidates, err := a.Rank(ctx, q.Text, goldBest)
		if err != nil {
			return v, fmt.Errorf("nco: evaluate line %d: rank: %w", q.Line, err)
		}
		out, err := pawl.Execute(ctx, g, Input{Text: q.Text})
		if err != nil {
			return v, fmt.Errorf("nco: evaluate line %d: %w", q.Line, err)
		}
		v.Rows = append(v.Rows, Measured{q, candidates[:min(goldBest, len(candidates))], out.Status, out.Question})
	}
	v.All = score(v.Rows)
	for language, rows := range grouped(v.Rows, func(m Measured) string { return m.Language }) {
		v.ByLanguage[language] = score(rows)
	}
	for category, rows := range grouped(v.Rows, func(m Measured) string { return m.Category }) {
		v.ByCategory[category] = score(rows)
	}
	return v, nil
}

func grouped(rows []Measured, by func(Measured) string) map[string][]Measured {
	groups := map[string][]Measured{}
	for _, m := range rows {
		if k := by(m); k != "" {
			groups[k] = append(groups[k], m)
		}
	}
	return groups
}

// portion counts how many of those that it applies to have something.
type portion struct{ have, of int }

func (p *portion) count(applies, has bool) {
	if applies {
		p.of++
		if has {
			p.have++
		}
	}
}

func (p *portion) share() *float64 {
	if p.of == 0 {
		return nil
	}
	s := float64(p.have) / float64(p.of)
	return &s
}

func score(rows []Measured) Score {
	var code1, code5, family1, family5, unclear, clear portion
	for _, m := range rows {
		code1.count(len(m.Codes) > 0, m.codeIn(1))
		code5.count(len(m.Codes) > 0, m.codeIn(goldBest))
		family1.count(len(m.Families) > 0, m.familyIn(1))
		family5.count(len(m.Families) > 0, m.familyIn(goldBest))
		unclear.count(m.Needs == NeedsYes, m.Asked())
		clear.count(m.Needs == NeedsNo, m.Asked())
	}
	return Score{len(rows), code1.share(), code5.share(), family1.share(), family5.share(), unclear.share(), clear.share()}
}

func (m Measured) codeIn(first int) bool {
	return slices.ContainsFunc(m.Candidates[:min(first, len(m.Candidates))], func(c Candidate) bool { return slices.Contains(m.Codes, c.Code) })
}

func (m Measured) familyIn(first int) bool {
	return slices.ContainsFunc(m.Candidates[:min(first, len(m.Candidates))], func(c Candidate) bool {
		return slices.Contains(m.Families, prefix(c.Code, 4))
	})
}

// Asked says whether the agent would have asked.
func (m Measured) Asked() bool { return m.Status == MoreInfo }

// Faults says what is not as the query wants it; empty: nothing.
func (m Measured) Faults() []string {
	var faults []string
	if len(m.Codes) > 0 && !m.codeIn(goldBest) {
		faults = append(faults, "no right code among the five")
	}
	if len(m.Families) > 0 && !m.familyIn(goldBest) {
		faults = append(faults, "no right family among the five")
	}
	switch {
	case m.Needs == NeedsNo && m.Asked():
		faults = append(faults, "asked although it is clear")
	case m.Needs == NeedsYes && !m.Asked():
		faults = append(faults, "not asked although it is unclear")
	}
	return faults
}
