package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl"
	"pawl/workflows/nco"
)

// oddRows is an input of few rows with all that CSV can hold.
const oddRows = "id,\"job, or title\",note\r\nE1,cook,\"a\r\nb\"\r\nE2,\"tailor, \"\"ladies\"\"\",\xff\nE3,,\n\nE4,\"two\nlines\",\x00\nE5,ask me,x"

// bulkOf is a job over a file in dir whose coder is made up: it matches, asks or refuses by the text.
func bulkOf(t *testing.T, dir string, overwrite bool) *bulk {
	t.Helper()
	in := filepath.Join(dir, "in.csv")
	survey, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer survey.Close()
	file, err := surveyBulk(t.Context(), in, survey, "job, or title", false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	input, err := newBulkInput(in, file, again)
	if err != nil {
		t.Fatal(err)
	}
	job := bulkJob{Input: file.hash, Rows: file.rows, Column: "job, or title", Workflow: "nco@test"}
	return &bulk{
		workers: 3, input: input, part: newBulkPart(filepath.Join(dir, "out.csv"), job, overwrite),
		code: func(_ context.Context, text string) (nco.Output, error) {
			switch {
			case text == "":
				return nco.Output{}, &pawl.Error{Code: pawl.CodeInvalid, Text: "text: empty"}
			case strings.HasPrefix(text, "ask"):
				return nco.Output{Status: nco.MoreInfo, Confidence: 1.5, Question: "What,\nsay?", Choices: []string{"a; b", "c"}}, nil
			case strings.HasPrefix(text, "two"):
				return nco.Output{}, &pawl.Error{Code: pawl.CodeInvalid, Text: "text: of two\nlines"}
			}
			return nco.Output{Status: nco.MatchFound, Confidence: 9, Codes: []nco.Code{{Code: "5120.0100", Title: "Cook \"" + text + "\""}, {Code: "1111.0100", Title: "x"}}}, nil
		},
		shown: &bulkShown{say: newVoice(&bytes.Buffer{}, func(string) string { return "" }), total: file.rows},
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func got(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const oddOut = "id,\"job, or title\",note,nco_row,nco_status,nco_codes,nco_titles,nco_confidence,nco_question,nco_choices,nco_assumptions,nco_reason\n" +
	"E1,cook,\"a\r\nb\",1,MATCH_FOUND,5120.0100 1111.0100,\"Cook \"\"cook\"\"; x\",9,,,,\n" +
	"E2,\"tailor, \"\"ladies\"\"\",\xff,2,MATCH_FOUND,5120.0100 1111.0100,\"Cook \"\"tailor, \"\"ladies\"\"\"\"; x\",9,,,,\n" +
	"E3,,,3,REFUSED,,,,,,,empty\n" +
	"E4,\"two\nlines\",\x00,4,REFUSED,,,,,,,of two lines\n" +
	"E5,ask me,x,5,MORE_INFO,,,1.5,\"What, say?\",\"a, b; c\",,\n"

// finished runs a job to its end and checks the output.
func finished(t *testing.T, dir string, overwrite bool) *bulk {
	t.Helper()
	b := bulkOf(t, dir, overwrite)
	if err := b.do(t.Context(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := got(t, dir, "out.csv"); out != oddOut {
		t.Fatalf("the output differs:\n%q\n%q", out, oddOut)
	}
	if want := (bulkTally{Rows: 5, Matched: 2, Asked: 1, Refused: 2}); b.tally != want {
		t.Fatalf("%+v, want %+v", b.tally, want)
	}
	left, err := filepath.Glob(filepath.Join(dir, "out.csv.*"))
	if err != nil || len(left) > 0 {
		t.Fatal("left behind: ", left, err)
	}
	return b
}

// TestBulkEveryCut: wherever the part ends, by a byte, and whatever stands behind, the same command comes to the same end
// and keeps the rows that are whole.
func TestBulkEveryCut(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	b := finished(t, dir, false)
	if b.shown.before != 0 {
		t.Error(b.shown.before)
	}
	var wholeRows []int // the offsets behind the rows
	for i := range 4 {
		wholeRows = append(wholeRows, strings.Index(oddOut, fmt.Sprintf("\nE%d", i+2))+1)
	}
	wholeRows = append(wholeRows, len(oddOut))
	for end := 0; end <= len(oddOut); end++ {
		for _, rest := range []string{"", "\x00\x00\x00\x00", "\x00\n", ",\"\n"} {
			if err := errors.Join(os.Remove(filepath.Join(dir, "out.csv")), b.part.writeSide()); err != nil {
				t.Fatal(err)
			}
			put(t, dir, "out.csv.part", oddOut[:end]+rest)
			again := finished(t, dir, false)
			whole := 0
			for whole < 5 && end >= wholeRows[whole] {
				whole++
			}
			if kept := again.shown.before; kept != whole {
				t.Errorf("cut at %d, %q behind: %d rows were kept, want %d", end, rest, kept, whole)
			}
		}
	}
}

// TestBulkCrashAtTheEnd: a process that died while it gave the output its name has finished, or the next one does.
func TestBulkCrashAtTheEnd(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	b := finished(t, dir, false)
	b.part.job.Finished = int64(len(oddOut))
	if err := b.part.writeSide(); err != nil { // the name is given, the side file is left
		t.Fatal(err)
	}
	if b := finished(t, dir, false); b.shown.before != 5 {
		t.Errorf("%d rows were kept", b.shown.before)
	}
	if err := errors.Join(b.part.writeSide(), os.Rename(b.part.out, b.part.path)); err != nil { // just before
		t.Fatal(err)
	}
	put(t, dir, "out.csv.part.json.new", "{")
	if b := finished(t, dir, false); b.shown.before != 5 {
		t.Errorf("%d rows were kept", b.shown.before)
	}
	b.part.job.Finished = 7 // it speaks of another output
	if err := b.part.writeSide(); err != nil {
		t.Fatal(err)
	}
	if err := bulkOf(t, dir, false).do(t.Context(), 0o600); pawl.Coded(err) == nil || pawl.Coded(err).Code != pawl.CodeConflict {
		t.Error(err)
	}
}

// TestBulkOtherJob: the part of another job is refused with what differs, and thrown away only when that is said.
func TestBulkOtherJob(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	own := finished(t, dir, false).part
	if err := os.Remove(own.out); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*bulkJob)
		says   string
	}{
		"input":    {func(j *bulkJob) { j.Input = "0123456789abcdef" }, "the input (SHA-256) was 0123456789a… and is "},
		"column":   {func(j *bulkJob) { j.Column = "id" }, `the column was "id" and is "job, or title"`},
		"workflow": {func(j *bulkJob) { j.Workflow = "nco@1" }, "the workflow was nco@1 and is nco@test"},
		"catalog":  {func(j *bulkJob) { j.Catalog = "ff" }, "the catalogue (hash) was ff and is"},
		"program":  {func(j *bulkJob) { j.Program = "ee" }, "the program (SHA-256) was ee and is"},
		"rows":     {func(j *bulkJob) { j.Rows = 1 }, "the number of rows was 1 and is 5"},
		"none":     {nil, "there is no "},
		"torn":     {nil, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, dir, "out.csv.part", oddOut[:300])
			other := newBulkPart(own.out, own.job, false)
			switch {
			case c.change != nil:
				c.change(&other.job)
				if err := other.writeSide(); err != nil {
					t.Fatal(err)
				}
			case name == "none":
				_ = os.Remove(own.side)
			default:
				put(t, dir, "out.csv.part.json", "{\"input\":")
			}
			err := bulkOf(t, dir, false).do(t.Context(), 0o600)
			e := pawl.Coded(err)
			if e == nil || e.Code != pawl.CodeConflict || !strings.Contains(e.Error(), c.says) || !strings.Contains(e.Error(), "--overwrite") {
				t.Fatal(err)
			}
			if got(t, dir, "out.csv.part") != oddOut[:300] {
				t.Error("the refused part was changed")
			}
			if b := finished(t, dir, true); b.shown.before != 0 {
				t.Errorf("%d rows of another job were kept", b.shown.before)
			}
			if err := os.Remove(own.out); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestBulkTampered: rows of the part that are not those of the input are made again.
func TestBulkTampered(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	own := finished(t, dir, false).part
	for i, change := range [][2]string{{"E3,,,3", "E9,,,3"}, {",3,REFUSED", ",4,REFUSED"}, {"3,REFUSED", "3,DONE"}, {"E3,,,3", "E3,,3"}, {"id,", "no,"}} {
		if err := errors.Join(os.Remove(own.out), own.writeSide()); err != nil {
			t.Fatal(err)
		}
		put(t, dir, "out.csv.part", strings.Replace(oddOut, change[0], change[1], 1))
		if kept := finished(t, dir, false).shown.before; kept != 2 && (i < 4 || kept != 0) {
			t.Errorf("%s: %d rows were kept", change[1], kept)
		}
	}
}

// TestBulkChangedInput: an input that changes while it is coded is found out.
func TestBulkChangedInput(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	for name, text := range map[string]string{
		"a row": strings.Replace(oddRows, "cook", "look", 1), "the header": strings.Replace(oddRows, "id", "no", 1),
		"one more": oddRows + "\nE6,a,b", "one less": oddRows[:len(oddRows)-14], "broken": oddRows + "\"", "ragged": oddRows + "\nE6",
	} {
		put(t, dir, "in.csv", oddRows)
		b := bulkOf(t, dir, true)
		in, err := newBulkInput("in.csv", b.input.file, strings.NewReader(text))
		if err == nil {
			b.input = in
			err = b.do(t.Context(), 0o600)
		}
		if e := pawl.Coded(err); e == nil || e.Code != pawl.CodeConflict || !strings.Contains(e.Error(), "has changed") {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.Remove(b.part.path)
	}
}

// TestBulkAnotherHolder: a part that somebody holds is not touched, and one that got its name meanwhile is not written on.
func TestBulkAnotherHolder(t *testing.T) {
	t.Parallel()
	if !bulkRenamesOpen {
		t.Skip("needs linux: there are no locks of the kind here")
	}
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	holder := bulkOf(t, dir, false).part
	if err := holder.open(0o600); err != nil {
		t.Fatal(err)
	}
	err := bulkOf(t, dir, true).do(t.Context(), 0o600)
	if e := pawl.Coded(err); e == nil || e.Code != pawl.CodeConflict || !strings.Contains(e.Error(), "another process") {
		t.Error(err)
	}
	if err := holder.close(); err != nil {
		t.Fatal(err)
	}
	finished(t, dir, false)
}

// TestBulkWindow: the rows in memory are few, however slow the first of them is.
func TestBulkWindow(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	var text strings.Builder
	text.WriteString("\"job, or title\"\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "cook in kitchen %d\n", i)
	}
	put(t, dir, "in.csv", text.String())
	b := bulkOf(t, dir, false)
	quick, first := b.code, make(chan struct{})
	most := make(chan int, 1)
	most <- 0
	b.code = func(ctx context.Context, text string) (nco.Output, error) {
		if text == "cook in kitchen 0" {
			<-first
			return quick(ctx, text)
		}
		n := <-most
		if n++; n == 8*b.workers { // the window is full: nobody may go on
			close(first)
		}
		most <- n
		return quick(ctx, text)
	}
	if err := b.do(t.Context(), 0o600); err != nil || b.tally.Matched != 2000 {
		t.Error(err, b.tally)
	}
}
