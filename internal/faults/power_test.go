package faults

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"pawl/store/sqlite"
)

// emptyDatabase is one with nothing in it: making it anew for each cut would be most of the work.
func emptyDatabase(t *testing.T) []byte {
	path := filepath.Join(tempDir(t), "x.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// powerOf prepares cuts.
func powerOf(t *testing.T) func(seed uint64) *Power {
	name, d, err := Wired("sqlite3")
	if err != nil {
		t.Fatal(err)
	}
	empty, dir := emptyDatabase(t), tempDir(t)
	return func(seed uint64) *Power {
		return &Power{Seed: seed, Empty: empty, Folder: filepath.Join(dir, strconv.FormatUint(seed, 10)), Driver: d, Name: name}
	}
}

// TestFaultPowerCut takes the power away from a disk under SQLite, with full disks and failed syncs in between, and finds
// all that was acknowledged; and with NORMAL it finds that something is lost, which shows that it looks.
func TestFaultPowerCut(t *testing.T) {
	n, make := number("FAULTS_CUTS", 500), powerOf(t)
	var sum Cut
	invalid := 0
	for i := range n {
		p := make(uint64(i + 1))
		p.Full, p.Fsync = i%5 == 3, i%5 == 4
		c, err := p.Play()
		if err != nil {
			t.Fatalf("seed %d: %v", p.Seed, err)
		}
		if c.Lost > 0 || len(c.Broken) > 0 {
			t.Errorf("seed %d: %d of %d acknowledged writes are lost: %s", p.Seed, c.Lost, c.Acked, strings.Join(c.Broken, "\n"))
		}
		if c.Acked == 0 {
			invalid++
		}
		sum.Acked, sum.Refused, sum.Left = sum.Acked+c.Acked, sum.Refused+c.Refused, sum.Left+c.Left
		_ = os.RemoveAll(p.Folder)
	}
	t.Logf("FULL: %d cuts, %d acknowledged writes, 0 lost; %d refused before, %d unacknowledged ones are there; %d invalid", n, sum.Acked, sum.Refused, sum.Left, invalid)
	if invalid*5 > n {
		t.Error("too many cuts before anything was acknowledged")
	}
	lost, losing := 0, 0
	for i := range 50 {
		p := make(uint64(n + i + 1))
		p.Normal = true
		c, err := p.Play()
		if err != nil {
			t.Fatal(err)
		}
		if lost += c.Lost; c.Lost > 0 {
			losing++
		}
	}
	t.Logf("NORMAL: 50 cuts, %d of them lost %d acknowledged writes", losing, lost)
	if lost == 0 {
		t.Error("NORMAL loses nothing: the disk does not forget what was not synced")
	}
}
