package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pawl"
	"pawl/workflows/nco"
)

const (
	bulkBuffer = 64 << 10               // bytes of rows that are written at once
	bulkSync   = 500 * time.Millisecond // how often what was written is made durable
)

// bulkJob is what makes two calls the same job: then one goes on with what the other has done.
type bulkJob struct {
	Input    string `json:"input"` // SHA-256 of its bytes, in hex
	Rows     int    `json:"rows"`
	Column   string `json:"column"`
	Workflow string `json:"workflow"` // name@version
	Catalog  string `json:"catalog"`  // its hash
	Model    string `json:"model,omitempty"`
	Program  string `json:"program"` // SHA-256 of the program that codes, in hex: another one may code otherwise
	// Finished is the size of the output in bytes, once only its name is missing.
	Finished int64 `json:"finished,omitempty"`
}

// bulkTally counts rows by what they came to.
type bulkTally struct {
	Rows    int `json:"rows"`
	Matched int `json:"matched"`
	Asked   int `json:"asked"`
	Refused int `json:"refused"`

	fellBack int // of them, coded by the rules where a model should have
}

// add counts a row by what it has in our columns, if that is the row that comes next. A NUL in it is a hole in the file,
// from a machine that lost its power.
func (t *bulkTally) add(ours, columns []string) bool {
	return len(ours) == len(columns) && ours[0] == strconv.Itoa(t.Rows+1) && !strings.ContainsRune(strings.Join(ours, ""), 0) &&
		t.count(ours[1], len(ours) > len(bulkColumns) && ours[len(bulkColumns)] != "")
}

func (t *bulkTally) count(status string, fell bool) (known bool) {
	switch status {
	case string(nco.MatchFound):
		t.Matched++
	case string(nco.MoreInfo):
		t.Asked++
	case bulkRefused:
		t.Refused++
	default:
		return false
	}
	t.Rows++
	if fell {
		t.fellBack++
	}
	return true
}

// bulkPart is an output that is being made: OUT.part holds its rows so far, OUT.part.json says of which job.
type bulkPart struct {
	out, path, side string
	overwrite       bool
	job             bulkJob

	f       *os.File
	begun   bool   // the file is there under its path, and is of this job
	size    int64  // bytes in the file
	rows    int    // in the file
	pending []byte // whole rows that are not in it yet
	waiting int    // how many those are
	dirty   bool   // something was written since
	synced  time.Time
}

func newBulkPart(out string, job bulkJob, overwrite bool) *bulkPart {
	return &bulkPart{out: out, path: out + ".part", side: out + ".part.json", job: job, overwrite: overwrite, synced: time.Now()}
}

// besides are the files beside the output and the part that are written and cleaned up.
func (p *bulkPart) besides() []string { return []string{p.side, p.next(), p.spent()} }

// spent is the file that says what a model has cost so far.
func (p *bulkPart) spent() string { return p.out + ".part.spent" }

// next is the side file until it is whole.
func (p *bulkPart) next() string { return p.side + ".new" }

func conflict(format string, a ...any) error {
	return &pawl.Error{Code: pawl.CodeConflict, Text: fmt.Sprintf(format, a...)}
}

// unwritable is a fault of the disk or of its permissions. What a *fs.PathError says of the file is enough.
func unwritable(err error) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Text: "cannot write: " + err.Error(), Err: err}
}

// exists says whether there is a file, and refuses whatever else is there.
func exists(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, invalid("%v", err)
	case !info.Mode().IsRegular():
		return nil, invalid("%s is not a file", path)
	}
	return info, nil
}

// free refuses an output that is there and may not be replaced.
func (p *bulkPart) free() error {
	info, err := exists(p.out)
	if err == nil && info != nil && !p.overwrite {
		err = conflict("%s is there already: name another file with --out, or replace it with --overwrite", p.out)
	}
	return err
}

// complete says whether this job is done: another process died between giving the output its name and cleaning up.
func (p *bulkPart) complete() (bool, error) {
	info, err := exists(p.out)
	if err != nil || info == nil {
		return false, err
	}
	if part, err := exists(p.path); err != nil || part != nil {
		return false, err
	}
	job, err := p.readSide()
	if err != nil {
		return false, nil // nothing that is worth a refusal: there is no part
	}
	same := p.job
	same.Finished = info.Size()
	return job == same, nil
}

// open opens and locks the part. Conflicts say whose it is.
func (p *bulkPart) open(mode fs.FileMode) error {
	if err := p.free(); err != nil {
		return err
	}
	if _, err := exists(p.path); err != nil {
		return err
	}
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, mode|0o600)
	if err != nil {
		return unwritable(err)
	}
	mine, err := lockBulk(f)
	if err != nil {
		_ = f.Close()
		return unwritable(fmt.Errorf("lock %s: %w", p.path, err))
	}
	here, err := f.Stat()
	there, gone := os.Stat(p.path)
	if !mine || err != nil || gone != nil || !os.SameFile(here, there) { // it got its name before we had the lock
		_ = f.Close()
		return conflict("%s is being written by another process", p.out)
	}
	p.f, p.size = f, here.Size()
	if err := p.free(); err != nil { // another process has finished since
		if p.size == 0 {
			_ = os.Remove(p.path)
		}
		return errors.Join(err, p.close())
	}
	return nil
}

// begin decides what becomes of what is in the part: it is gone on with where it is of this job, and else refused or
// thrown away. It says whether there is something to go on with.
func (p *bulkPart) begin() (goesOn bool, err error) {
	if p.size > 0 {
		why := ""
		job, err := p.readSide()
		switch {
		case err != nil:
			why = err.Error()
		default:
			why = p.job.differs(job)
		}
		if why == "" {
			p.begun = true
			return true, nil
		}
		if !p.overwrite {
			return false, conflict("%s is of another job: %s; begin anew with --overwrite, or name another file with --out", p.path, why)
		}
	}
	if err := p.cut(0); err != nil {
		return false, err
	}
	if err := p.f.Sync(); err != nil { // the rows of another job must not come back under this one's name
		return false, unwritable(err)
	}
	err = p.writeSide()
	p.begun = err == nil
	return false, err
}

// differs says in what another job is not this one, empty if in nothing.
func (j bulkJob) differs(other bulkJob) string {
	var parts []string
	say := func(what, theirs, ours string) {
		if theirs != ours {
			parts = append(parts, fmt.Sprintf("%s was %s and is %s", what, theirs, ours))
		}
	}
	say("the input (SHA-256)", brief(other.Input), brief(j.Input))
	say("the column", shortened(other.Column), shortened(j.Column))
	say("the workflow", other.Workflow, j.Workflow)
	say("the catalogue (hash)", brief(other.Catalog), brief(j.Catalog))
	say("the model", cmp.Or(shortened(other.Model), "none"), cmp.Or(shortened(j.Model), "none"))
	say("the program (SHA-256)", brief(other.Program), brief(j.Program))
	say("the number of rows", strconv.Itoa(other.Rows), strconv.Itoa(j.Rows))
	return strings.Join(parts, "; ")
}

func brief(hash string) string { return oneLine(hash, 12) }

func (p *bulkPart) readSide() (job bulkJob, err error) {
	raw, err := readAtMost(p.side, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return job, fmt.Errorf("there is no %s beside it", p.side)
	}
	if err != nil {
		return job, err
	}
	if err := json.Unmarshal(raw, &job); err != nil {
		return job, fmt.Errorf("%s cannot be read: %w", p.side, err)
	}
	return job, nil
}

// writeSide puts the job beside the part, whole or not at all.
func (p *bulkPart) writeSide() error {
	raw, err := json.MarshalIndent(p.job, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.Create(p.next())
	if err != nil {
		return unwritable(err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return unwritable(err)
	}
	if err := errors.Join(os.Rename(p.next(), p.side), syncFolder(filepath.Dir(p.out))); err != nil {
		return unwritable(err)
	}
	return nil
}

// cut throws away what is behind an offset.
func (p *bulkPart) cut(size int64) error {
	if err := p.f.Truncate(size); err != nil {
		return unwritable(err)
	}
	if _, err := p.f.Seek(size, io.SeekStart); err != nil {
		return unwritable(err)
	}
	p.size, p.dirty = size, true
	return nil
}

// recall keeps the rows of the part that are whole and belong to the rows of the input, cuts off the rest, and leaves the
// input behind them.
func (p *bulkPart) recall(head []byte, input *bulkInput) (bulkTally, error) {
	t, keep, err := recall(p.f, head, input)
	p.rows = t.Rows
	if err != nil {
		return t, err
	}
	if keep == 0 {
		return t, p.restart(head)
	}
	return t, p.cut(keep)
}

// recall counts the rows at the beginning of an output that are whole and belong to the rows of the input, which it leaves
// behind them. keep is the offset behind the last one, 0 where the header is not whole.
func recall(out io.ReadSeeker, head []byte, input *bulkInput) (t bulkTally, keep int64, err error) {
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return t, 0, unwritable(err)
	}
	old := newRowReader(out, 2*maxBulkRow)
	begins := make([]byte, len(head))
	if _, err := io.ReadFull(old.r, begins); err != nil || !bytes.Equal(begins, head) {
		return t, 0, nil
	}
	old.offset = int64(len(head))
	for keep = old.offset; ; keep = old.offset {
		row, err := old.next()
		if fault, ok := errors.AsType[*fs.PathError](err); ok {
			return t, keep, &pawl.Error{Code: pawl.CodeUnavailable, Text: fault.Error(), Err: fault}
		}
		if err != nil || !row.whole {
			return t, keep, nil
		}
		of, fits, err := input.matches(row.raw)
		if err != nil {
			return t, keep, err
		}
		if !fits || !t.add(row.fields[min(len(of.fields), len(row.fields)):], input.file.added()) {
			return t, keep, nil
		}
		input.taken()
	}
}

// restart begins with nothing but the header.
func (p *bulkPart) restart(head []byte) error {
	if err := p.cut(0); err != nil {
		return err
	}
	p.rows, p.pending = 0, append(p.pending, head...)
	return p.flush()
}

// add takes over a whole row.
func (p *bulkPart) add(row []byte) {
	p.pending = append(p.pending, row...)
	p.waiting++
}

// flush writes the rows that wait. Where that fails, the file ends with its last whole row, as far as that can be done.
func (p *bulkPart) flush() error {
	if len(p.pending) == 0 {
		return nil
	}
	_, err := p.f.Write(p.pending)
	if err != nil {
		_ = p.cut(p.size)
		return unwritable(err)
	}
	p.size += int64(len(p.pending))
	p.rows, p.waiting = p.rows+p.waiting, 0
	p.pending, p.dirty = p.pending[:0], true
	return nil
}

// sync makes what was written durable; unless now, only where that is due.
func (p *bulkPart) sync(now bool) error {
	if !p.dirty || !now && time.Since(p.synced) < bulkSync {
		return nil
	}
	if err := p.f.Sync(); err != nil {
		return unwritable(err)
	}
	p.dirty, p.synced = false, time.Now()
	return nil
}

// finish gives the output its name, durably, and cleans up.
func (p *bulkPart) finish() error {
	if err := errors.Join(p.flush(), p.sync(true)); err != nil {
		return err
	}
	p.job.Finished = p.size
	if err := errors.Join(p.writeSide(), p.free()); err != nil {
		return err
	}
	if !bulkRenamesOpen {
		if err := p.close(); err != nil {
			return err
		}
	}
	if err := os.Rename(p.path, p.out); err != nil {
		return unwritable(err)
	}
	p.begun = false
	if err := syncFolder(filepath.Dir(p.out)); err != nil {
		return unwritable(err)
	}
	return errors.Join(p.clean(), p.close())
}

// clean removes what says of which job the part was.
func (p *bulkPart) clean() error {
	for _, name := range p.besides() {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unwritable(err)
		}
	}
	if err := syncFolder(filepath.Dir(p.out)); err != nil {
		return unwritable(err)
	}
	return nil
}

// close gives the file back, and with it the lock.
func (p *bulkPart) close() error {
	if p.f == nil {
		return nil
	}
	f := p.f
	p.f = nil
	if err := f.Close(); err != nil {
		return unwritable(err)
	}
	return nil
}
