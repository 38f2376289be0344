package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"pawl"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/postgres"
	"pawl/store/sqlite"
)

// storeKind is one kind of store: the word before the colon, and how it is opened with what stands behind it.
type storeKind struct {
	scheme, form string
	lasting      bool   // what it keeps is there after the program has ended
	backup       string // what to do instead of backup; empty: it can do that
	open         func(ctx context.Context, c *call, rest string) (store.Store, error)
}

// stores is the table of all stores. A new one is a folder under store/ and a line here.
var stores = []storeKind{
	{"memory", "memory (ends with the command)", false, "the store memory ends with the command and leaves nothing to copy", openMemory},
	{"sqlite", "sqlite:PATH", true, "", openSQLite},
	{"postgres", "postgres://USER@HOST/DATABASE", true, dump, openPostgres},
	{"postgresql", "", true, dump, openPostgres},
}

const dump = "a store on Postgres is copied by Postgres's own program: pg_dump --format=custom --file=FILE, and pg_restore to bring it back"

func storeForms() string {
	var forms []string
	for _, k := range stores {
		if k.form != "" {
			forms = append(forms, k.form)
		}
	}
	return strings.Join(forms, ", ")
}

func openMemory(_ context.Context, _ *call, rest string) (store.Store, error) {
	if rest != "" {
		return nil, invalid("store memory takes nothing after it, not %q", rest)
	}
	return memory.New(), nil
}

func openSQLite(ctx context.Context, c *call, rest string) (store.Store, error) {
	path := strings.TrimPrefix(rest, "//")
	if path == "" {
		dir := dataDir(c.lookup)
		if dir == "" {
			return nil, invalid("there is no home folder to keep runs in: say where with --store sqlite:PATH")
		}
		path = filepath.Join(dir, "pawl", "pawl.db")
	}
	s, err := sqlite.Open(ctx, path, sqlite.Options{Busy: busy})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// busy is how long a command waits for other programs that write to the file: shorter than a lease.
const busy = 5 * time.Second

func openPostgres(ctx context.Context, _ *call, rest string) (store.Store, error) {
	if !strings.HasPrefix(rest, "//") {
		return nil, invalid("store postgres takes an address: postgres://USER@HOST/DATABASE")
	}
	s, err := postgres.Open(ctx, "postgres:"+rest, postgres.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// kindOf parts a store's name into its kind and the rest.
func kindOf(name string) (storeKind, string, error) {
	scheme, rest, _ := strings.Cut(name, ":")
	for _, k := range stores {
		if strings.EqualFold(k.scheme, scheme) {
			return k, rest, nil
		}
	}
	return storeKind{}, "", invalid("there is no store %q: use one of %s", masked(name), storeForms())
}

// opening is the error of a store that cannot be opened.
func opening(k storeKind, err error) error {
	if e := new(pawl.Error); errors.As(err, &e) {
		return err
	}
	why := err.Error()
	for _, noise := range []string{"sqlite: open: ", "postgres: open: ", "postgres: pending: ", store.ErrUnavailable.Error() + ": "} {
		why = strings.ReplaceAll(why, noise, "")
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "open", Text: "store " + k.scheme + ": " + why, Err: err}
}

// openStore opens the store of the configuration, once.
func (c *call) openStore(ctx context.Context) error {
	if c.store != nil {
		return nil
	}
	name := c.conf.value("store")
	k, rest, err := kindOf(name)
	if err != nil {
		return err
	}
	s, err := k.open(ctx, c, rest)
	if err != nil {
		return opening(k, err)
	}
	c.store, c.lasting = s, k.lasting
	c.closers = append(c.closers, func() error {
		if err := s.Close(); err != nil {
			return &pawl.Error{Code: pawl.CodeUnavailable, Op: "close", Text: fmt.Sprintf("store %s: close: %v", k.scheme, err), Err: err}
		}
		return nil
	})
	return nil
}

// storeTyped is a store's name as it can be typed from another folder; a password has to be put in again.
func storeTyped(name string) string {
	if k, rest, err := kindOf(name); err == nil && k.scheme == "sqlite" && rest != "" {
		return "sqlite:" + absolute(strings.TrimPrefix(rest, "//"))
	}
	return masked(name) // a password is never printed, also where it has to be put in again
}

// masked hides the password of an address.
func masked(name string) string {
	if !strings.Contains(name, "://") {
		return name
	}
	u, err := url.Parse(name)
	if err != nil {
		scheme, _, _ := strings.Cut(name, "://")
		return scheme + "://****"
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), "****")
	}
	for key, values := range u.Query() {
		if strings.Contains(strings.ToLower(key), "pass") && len(values) > 0 {
			u.RawQuery = "****"
		}
	}
	return strings.ReplaceAll(u.String(), "%2A", "*")
}
