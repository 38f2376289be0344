package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3/vfs"

	"pawl/store"
	"pawl/store/sqlite"
)

// Power is one store on a disk whose power goes.
type Power struct {
	Seed   uint64
	Normal bool   // synchronous(NORMAL), which loses what was acknowledged
	Full   bool   // the disk is full for a while
	Fsync  bool   // a sync fails for once
	Empty  []byte // a database with nothing in it
	Folder string // where the files may be
	Driver *Driver
	Name   string                        // of the driver
	Bug    func(store.Store) store.Store // nil: none
}

// Cut is what came of it.
type Cut struct {
	Acked, Lost int
	Refused     int // writes that were refused or of unknown outcome before the power went
	Left        int // writes that nobody had acknowledged and that are there
	Broken      []string
}

// Play writes until the power goes, and looks at what is left with another driver. The driver is told from here on which disk
// the file is on.
func (p *Power) Play() (c Cut, err error) {
	rng := rand.New(rand.NewPCG(p.Seed, 4))
	d := NewDisk(p.Seed, 8+rng.IntN(150))
	name := fmt.Sprint("faults-", p.Seed, p.Normal, p.Full, p.Fsync)
	vfs.Register(name, d)
	defer vfs.Unregister(name)
	before, after := filepath.Join(p.Folder, "before"), filepath.Join(p.Folder, "after")
	if err := errors.Join(os.MkdirAll(before, 0o700), os.MkdirAll(after, 0o700)); err != nil {
		return c, err
	}
	path := filepath.Join(before, "x.db")
	if err := os.WriteFile(path, p.Empty, 0o600); err != nil {
		return c, err
	}
	d.Have(path, append([]byte{}, p.Empty...))
	p.Driver.Lay(path, &Line{Normal: p.Normal, VFS: name, Pages: 1 + rng.IntN(40)})
	opened, err := sqlite.Open(context.Background(), path, sqlite.Options{Driver: p.Name})
	if err != nil {
		if d.Dead() {
			return c, nil
		}
		return c, err
	}
	var s store.Store = opened
	if p.Bug != nil {
		s = p.Bug(s)
	}
	if p.Fsync {
		d.FailSyncs(rng.IntN(2))
	}
	acked := p.write(s, d, rng, &c)
	d.Off()
	_ = s.Close() // it cannot write any more
	if err := d.Remains(after); err != nil {
		return c, err
	}
	return c, p.look(filepath.Join(after, "x.db"), acked, &c)
}

// write has a few writers write until the power goes, and gives what was acknowledged: by run, how many rows.
func (p *Power) write(s store.Store, d *Disk, rng *rand.Rand, c *Cut) map[string]int {
	ctx := context.Background()
	var mu sync.Mutex
	var wg sync.WaitGroup
	acked := map[string]int{}
	size := []int{10, 500, 6000}[rng.IntN(3)]
	if p.Full {
		d.Room(rng.IntN(100_000))
	}
	for w := range 3 {
		wg.Go(func() {
			for n := 0; !d.Dead() && n < 1000; n++ {
				id := fmt.Sprintf("r%d-%d", w, n/8)
				var err error
				if n%8 == 0 {
					err = s.Create(ctx, store.NewRun{ID: id, Workflow: "w", Version: "1"})
				} else {
					err = s.Apply(ctx, store.Change{Run: id, Add: []store.Row{{Stream: store.Step, Data: fmt.Appendf(nil, "%d %*d", n%8, size, n)}}})
				}
				mu.Lock()
				switch {
				case err == nil:
					acked[id]++
				case !d.Dead():
					c.Refused++
					if p.Full && c.Refused > 5 {
						d.Room(-1)
					}
					if p.Fsync {
						d.FailSyncs(0)
					}
				}
				mu.Unlock()
				if err != nil && n%8 == 0 {
					n += 7 // there is no such run
				} else if err != nil {
					n += 7 - n%8 // what may be there is not to be counted
				}
			}
		})
	}
	wg.Wait()
	return acked
}

// look reads what is left.
func (p *Power) look(path string, acked map[string]int, c *Cut) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		c.Broken = append(c.Broken, "the database cannot be opened any more: "+err.Error())
		return nil
	}
	defer s.Close()
	found, err := s.Check(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Fault != "" && !strings.Contains(f.Name, "disk") && f.Name != "fsync" {
			c.Broken = append(c.Broken, f.Name+": "+f.Fault)
		}
	}
	for id, n := range acked {
		c.Acked += n
		rows, err := s.Read(ctx, everything, id, store.Query{Stream: store.Step})
		have := len(rows) + 1
		if errors.Is(err, store.ErrNotFound) {
			have, err = 0, nil
		}
		if err != nil {
			return err
		}
		c.Lost += max(n-have, 0)
		c.Left += max(have-n, 0)
		for i, r := range rows {
			if r.Seq != int64(i+1) || !strings.HasPrefix(string(r.Data), fmt.Sprint(i+1, " ")) {
				c.Broken = append(c.Broken, fmt.Sprintf("run %s: row %d stands at place %d", id, r.Seq, i+1))
			}
		}
	}
	return nil
}
