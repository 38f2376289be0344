package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// Disk is a file system under SQLite that remembers what would be left if the power went: what was synced, and of the rest
// whatever a disk may have got done, in any order and torn in the middle. (After ALICE: Pillai et al., OSDI 2014; and for the
// failed sync: Rebello et al., "Can applications recover from fsync failures?", USENIX ATC 2020.)
//
// A write is pending until its file is synced. A sync that fails drops what was pending for good, though it can still be read:
// that is what a page cache does. New and removed files last at once.
type Disk struct {
	vfs.VFS // the operating system's

	mu     sync.Mutex
	rng    *rand.Rand
	files  map[string]*image
	left   int // operations until the power goes; below zero: it stays
	dead   bool
	failed int // syncs that fail from now on
	room   int // bytes that may still be written; below zero: any number
	ops    int
}

// image is what a disk has of a file.
type image struct {
	synced  []byte
	pending []change
}

// change is a write, or a new size where data is nil.
type change struct {
	at   int64
	data []byte
	lost bool // by a sync that failed
}

// sector is what a disk writes at once.
const sector = 512

// NewDisk makes a disk on which the power goes after so many operations; below zero: never.
func NewDisk(seed uint64, left int) *Disk {
	return &Disk{VFS: vfs.Find(""), rng: rand.New(rand.NewPCG(seed, 3)), files: map[string]*image{}, left: left, room: -1}
}

var (
	_ vfs.VFSFilename      = (*Disk)(nil)
	_ vfs.FileSharedMemory = (*diskFile)(nil)
)

// Have brings a file onto the disk that has been there for long.
func (d *Disk) Have(path string, b []byte) { d.files[path] = &image{synced: b} }

// FailSyncs makes the next n syncs fail.
func (d *Disk) FailSyncs(n int) { d.mu.Lock(); defer d.mu.Unlock(); d.failed = n }

// Room leaves so many bytes to be written; below zero: any number.
func (d *Disk) Room(n int) { d.mu.Lock(); defer d.mu.Unlock(); d.room = n }

// Ops is how many operations there were.
func (d *Disk) Ops() int { d.mu.Lock(); defer d.mu.Unlock(); return d.ops }

// Dead reports whether the power has gone.
func (d *Disk) Dead() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.dead }

// Off takes the power away.
func (d *Disk) Off() { d.mu.Lock(); defer d.mu.Unlock(); d.dead = true }

// step counts an operation, and is an error when there is no power.
func (d *Disk) step() error {
	d.ops++
	if d.left == 0 {
		d.dead = true
	}
	d.left--
	if d.dead {
		return sqlite3.IOERR_WRITE
	}
	return nil
}

func (d *Disk) image(name string) *image {
	i := d.files[name]
	if i == nil {
		i = &image{}
		d.files[name] = i
	}
	return i
}

// OpenFilename opens a file of the operating system and watches what is done to it.
func (d *Disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, out, err := vfsutil.WrapOpenFilename(d.VFS, name, flags)
	if err != nil || flags&(vfs.OPEN_MAIN_DB|vfs.OPEN_WAL|vfs.OPEN_MAIN_JOURNAL) == 0 {
		return f, out, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.image(name.String())
	return &diskFile{File: f, d: d, name: name.String()}, out, nil
}

// Delete removes a file.
func (d *Disk) Delete(name string, syncDir bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	delete(d.files, name)
	return d.VFS.Delete(name, syncDir)
}

// diskFile is a file on a disk.
type diskFile struct {
	vfs.File
	d    *Disk
	name string
}

func (f *diskFile) Unwrap() vfs.File               { return f.File }
func (f *diskFile) SharedMemory() vfs.SharedMemory { return vfsutil.WrapSharedMemory(f.File) }
func (f *diskFile) LockState() vfs.LockLevel       { return vfsutil.WrapLockState(f.File) }

func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	i := f.d.image(f.name)
	err := f.d.step()
	if err == nil || f.d.left == -1 { // the one under way when the power goes may be torn
		i.pending = append(i.pending, change{at: at, data: append([]byte{}, b...)})
	}
	if err != nil {
		return 0, err
	}
	if f.d.room >= 0 {
		if f.d.room -= len(b); f.d.room < 0 {
			f.d.room = 0
			return 0, sqlite3.FULL
		}
	}
	return f.File.WriteAt(b, at)
}

func (f *diskFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		return err
	}
	i := f.d.image(f.name)
	i.pending = append(i.pending, change{at: size})
	return f.File.Truncate(size)
}

func (f *diskFile) Sync(flags vfs.SyncFlag) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		return err
	}
	i := f.d.image(f.name)
	if f.d.failed > 0 {
		f.d.failed--
		for n := range i.pending {
			i.pending[n].lost = true
		}
		return sqlite3.IOERR_FSYNC
	}
	for _, c := range i.pending {
		if !c.lost {
			i.synced = c.on(i.synced)
		}
	}
	i.pending = nil
	return nil // the machine itself stays on: its own disk need not be waited for
}

// on is a file after a change.
func (c change) on(b []byte) []byte {
	if c.data == nil {
		for int64(len(b)) < c.at {
			b = append(b, 0)
		}
		return b[:c.at]
	}
	end := c.at + int64(len(c.data))
	if int64(len(b)) < end {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[c.at:], c.data)
	return b
}

// Remains writes into a folder what is left of the files when the power has gone.
func (d *Disk) Remains(folder string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for name, i := range d.files {
		if strings.HasSuffix(name, "-shm") {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), d.remains(i), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// remains is one of the files that may be left: nothing of what was pending, all of it up to a moment, or some of it in any
// order; and some writes torn.
func (d *Disk) remains(i *image) []byte {
	b := append([]byte{}, i.synced...)
	pending := append([]change{}, i.pending...)
	switch d.rng.IntN(4) {
	case 0:
		return b
	case 1:
		pending = pending[:d.rng.IntN(len(pending)+1)]
	case 2:
		d.rng.Shuffle(len(pending), func(x, y int) { pending[x], pending[y] = pending[y], pending[x] })
		pending = pending[:d.rng.IntN(len(pending)+1)]
	}
	for _, c := range pending {
		if c.lost {
			continue
		}
		if c.data == nil || d.rng.IntN(3) > 0 {
			b = c.on(b)
			continue
		}
		for at := 0; at < len(c.data); at += sector { // torn
			if d.rng.IntN(2) == 0 {
				b = change{at: c.at + int64(at), data: c.data[at:min(at+sector, len(c.data))]}.on(b)
			}
		}
	}
	return b
}
