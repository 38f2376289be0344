package app

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl"
	"pawl/workflows/nco"
)

// TestBulkGoesOnWith: the command that a stopped job prints has every flag that it was given, and works.
func TestBulkGoesOnWith(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	path := func(name string) string { return filepath.Join(s.dir, name) }
	put(t, s.dir, "in.csv", "id,\"job, or title\"\n1,E10\n2,E11\n3,IT\n")
	f := bulkFlags{in: path("in.csv"), column: "id", out: path("out.csv"), workers: 2, overwrite: true, anyColumn: true}
	b := &bulk{part: newBulkPart(f.out, bulkJob{}, true), shown: &bulkShown{total: 3}}
	b.part.begun = true
	c := &call{}
	c.Name = "pawl"
	err := c.bulkStopped(t.Context(), b, f, unwritable(errors.New("full")))
	_, next, found := strings.Cut(err.Error(), "0 of 3 rows are in "+b.part.path+"; go on with: pawl ")
	if !found || !strings.Contains(next, "--workers 2") || !strings.Contains(next, "--overwrite") {
		t.Fatal(err)
	}
	s.want(0, strings.Fields(next)...)
}

// TestBulkApart: no file that is written is one that is read.
func TestBulkApart(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	path := func(name string) string { return filepath.Join(s.dir, name) }
	for _, end := range []string{"", ".part", ".part.json", ".part.json.new"} {
		for _, read := range []string{"input", "catalogue"} {
			files := map[string]string{"input": "in.csv", "catalogue": "codes.csv"}
			files[read] = "x" + end
			text := map[string]string{"input": "job\ncook\n", "catalogue": "code,title\n5120.0100,Cook\n"}
			for what, name := range files {
				put(t, s.dir, name, text[what])
			}
			got := s.run("nco", "--in", path(files["input"]), "--column", "job", "--out", path("x"), "--catalog", path(files["catalogue"]), "--overwrite")
			oneClearLine(t, got, exitUsage, "over the "+read)
			if after, err := os.ReadFile(path("x" + end)); err != nil || string(after) != text[read] {
				t.Errorf("%s as x%s was changed: %q, %v", read, end, after, err)
			}
			_ = os.Remove(path("x" + end))
		}
	}
}

// TestBulkCountsWhatIsWritten: a job that cannot write says how many rows are in the file, and nothing where there is none.
func TestBulkCountsWhatIsWritten(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	b := bulkOf(t, dir, false)
	b.workers = 1
	quick := b.code
	b.code = func(ctx context.Context, text string) (nco.Output, error) {
		if strings.HasPrefix(text, "two") {
			_ = b.part.f.Close() // as a disk that is gone
		}
		return quick(ctx, text)
	}
	err := b.do(t.Context(), 0o600)
	if e := pawl.Coded(err); e == nil || e.Code != pawl.CodeUnavailable {
		t.Fatal(err)
	}
	in := strings.Count(got(t, dir, "out.csv.part"), "\nE")
	if b.part.rows != in || !b.part.begun || b.tally.Rows <= in {
		t.Errorf("%d rows said, %d in the file, %d made", b.part.rows, in, b.tally.Rows)
	}
	if b := finished(t, dir, false); b.part.begun || b.part.rows != 5 {
		t.Errorf("%+v", b.part)
	}
	none := bulkOf(t, dir, true)
	none.part = newBulkPart(filepath.Join(dir, "none", "out.csv"), none.part.job, true)
	err = (&call{}).bulkStopped(t.Context(), none, bulkFlags{}, none.do(t.Context(), 0o600))
	if err == nil || strings.Contains(err.Error(), "rows are in") {
		t.Error(err)
	}
}

// TestBulkOtherBytes: an output of the size that was recorded with other bytes in it is no end of the job.
func TestBulkOtherBytes(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	own := finished(t, dir, false).part
	for _, change := range [][2]string{{"E3,,,3", "E9,,,3"}, {"E5,ask me,x,5", "E5,ask me,x,6"}, {"c\",,\n", "c\",,,"}} {
		other := strings.Replace(oddOut, change[0], change[1], 1)
		own.job.Finished = int64(len(other))
		if err := own.writeSide(); err != nil {
			t.Fatal(err)
		}
		put(t, dir, "out.csv", other)
		err := bulkOf(t, dir, false).do(t.Context(), 0o600)
		if e := pawl.Coded(err); e == nil || e.Code != pawl.CodeConflict || !strings.Contains(err.Error(), "--overwrite") {
			t.Errorf("%q: %v", change[1], err)
		}
		if _, err := own.readSide(); err != nil || got(t, dir, "out.csv") != other {
			t.Errorf("%q: the refused output was changed: %v", change[1], err)
		}
		if b := finished(t, dir, true); b.shown.before != 0 {
			t.Errorf("%q: %d rows were kept", change[1], b.shown.before)
		}
	}
}

// TestBulkFaultOfOurs: a fault that is not the cell's stops the job with the fault's own code, and the row is coded next time.
func TestBulkFaultOfOurs(t *testing.T) {
	t.Parallel()
	dir := quickDir(t)
	put(t, dir, "in.csv", oddRows)
	b := bulkOf(t, dir, false)
	quick := b.code
	b.code = func(ctx context.Context, text string) (nco.Output, error) {
		if strings.HasPrefix(text, "two") {
			return nco.Output{}, errors.New("index: broken\ngoroutine 1")
		}
		return quick(ctx, text)
	}
	err := (&call{}).bulkStopped(t.Context(), b, bulkFlags{}, b.do(t.Context(), 0o600))
	if e := pawl.Coded(err); e == nil || e.Code != pawl.CodeInternal || strings.Contains(err.Error(), "goroutine") ||
		!strings.Contains(err.Error(), "row 4: it could not be coded: index: broken; 3 of 5 rows are in ") {
		t.Fatal(err)
	}
	if b := finished(t, dir, false); b.shown.before != 3 {
		t.Errorf("%d rows were kept", b.shown.before)
	}
}

// TestBulkColumnsOfNobody: columns that are not coded may have one name.
func TestBulkColumnsOfNobody(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	put(t, s.dir, "in.csv", "note,job,Note\na,cook,b\n")
	args := []string{"nco", "--in", filepath.Join(s.dir, "in.csv"), "--out", filepath.Join(s.dir, "out.csv"), "--column"}
	oneClearLine(t, s.run(append(args, "note")...), exitUsage, `two columns are named "Note"`)
	s.want(0, append(args, "job")...)
}

// TestNCODecidedShowsNoEvidence: a code that a person has decided on was not searched for.
func TestNCODecidedShowsNoEvidence(t *testing.T) {
	t.Parallel()
	for decided, shown := range map[bool]bool{true: false, false: true} {
		raw, err := json.Marshal(nco.Output{Status: nco.MatchFound, Decided: decided, Codes: []nco.Code{{Code: "7231", Title: "Mechanics"}}})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := renderNCO(&b, raw); err != nil || strings.Contains(b.String(), "evidence") != shown || !strings.Contains(b.String(), "7231  Mechanics") {
			t.Errorf("decided %v: %v\n%s", decided, err, b.String())
		}
	}
}
