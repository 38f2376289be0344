package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
)

// Options tune a store; the zero value is right.
type Options struct {
	// Schema is where the tables are; empty: the search_path of the address, else "pawl".
	Schema string
	// Conns is how many connections there may be; 0: pool_max_conns of the address, else 12. One more listens.
	Conns int
	// Writers is how many commits may be under way at once; 0: 3.
	Writers int
	// Unmigrated leaves the database as it is. Open then refuses one that is not up to date.
	Unmigrated bool
	// Dial reaches the server, through a tunnel for example, and finds its host by name; nil: as the network does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// patience is how long an operation may take before its connection is given up: a server that has gone may not answer at all.
const patience = 20 * time.Second

// settings are those of each connection. Each statement is planned once, since planning takes longer than doing it, and the
// planner is kept to the indexes: a plan that was made while a table was small is used again when it is not.
var settings = map[string]string{
	"statement_timeout":                   "15s",
	"lock_timeout":                        "10s",
	"idle_in_transaction_session_timeout": "20s",
	"default_transaction_isolation":       "read committed",
	"client_encoding":                     "UTF8",
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
}

// config is how to reach a database.
type config struct {
	schema  string
	where   string // the address as it can be shown
	writers int
	pool    *pgxpool.Config
}

func configure(address string, o Options) (*config, error) {
	c := &config{where: "address", writers: max(o.Writers, 0)}
	pool, err := pgxpool.ParseConfig(address)
	if err != nil {
		return c, unreadable(address)
	}
	cc := pool.ConnConfig
	c.pool, c.where = pool, fmt.Sprintf("%s:%d/%s", cc.Host, cc.Port, cc.Database)
	c.schema = o.Schema
	if c.schema == "" {
		c.schema = strings.Trim(cc.RuntimeParams["search_path"], `" `)
	}
	if c.schema == "" {
		c.schema = "pawl"
	}
	if len(c.schema) > 63 || strings.ContainsAny(c.schema, "\x00\"',") || strings.HasPrefix(c.schema, "pg_") {
		return c, fmt.Errorf("the schema %q cannot be: a name of at most 63 letters, without quotes and commas", c.schema)
	}
	if c.writers == 0 {
		c.writers = 3
	}
	switch {
	case o.Conns > 0:
		pool.MaxConns = int32(o.Conns)
	case !strings.Contains(address, "pool_max_conns"):
		pool.MaxConns = 12
	}
	pool.MaxConns = max(pool.MaxConns, 2)
	for name, value := range settings {
		if _, set := cc.RuntimeParams[name]; !set {
			cc.RuntimeParams[name] = value
		}
	}
	cc.RuntimeParams["search_path"] = c.quoted()
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "pawl"
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = 5 * time.Second
	}
	if o.Dial != nil {
		cc.DialFunc = o.Dial
		cc.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	pool.AfterConnect = c.greet
	return c, nil
}

// unreadable says what is wrong with an address. What pgx says of it may hold the password; the name of a setting does not.
func unreadable(address string) error {
	if u, err := url.Parse(address); err == nil {
		all := u.Query()
		wrong := func(q url.Values) bool {
			u.RawQuery = q.Encode()
			_, err := pgxpool.ParseConfig(u.String())
			return err != nil
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !wrong(nil) && wrong(url.Values{name: all[name]}) {
				return fmt.Errorf("its setting %s cannot be read", name)
			}
		}
	}
	return errors.New("it cannot be read: it must be like postgres://user:password@host:5432/database")
}

func (c *config) quoted() string { return `"` + c.schema + `"` }

// greet refuses a database of another version, and has this connection's commits durable whatever the server's default is.
func (c *config) greet(ctx context.Context, conn *pgx.Conn) error {
	version, err := c.version(ctx, conn)
	if err == nil {
		err = ours(version)
	}
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
	return err
}

// fault is an error of something that is not an operation of an open store.
func (c *config) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w: %s: %w", op, store.ErrUnavailable, c.where, explain(err))
}

// line is an error on one line, each part of it once: pgx has a line for each way in which it tried to connect. That a server has
// no TLS is no cause where it was then tried without.
type line struct{ error }

func (l line) Error() string {
	var parts []string
	all := strings.Split(l.error.Error(), "\n")
	for i, part := range all {
		part = strings.TrimSpace(part)
		tried := strings.HasSuffix(part, "server refused TLS connection") && i < len(all)-1
		if !tried && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

func (l line) Unwrap() error { return l.error }

// explain adds the cause where Postgres names only the effect.
func explain(err error) error {
	err = line{err}
	hints := map[string]string{
		"28P01": "the server does not take this name and password: PGPASSWORD or ~/.pgpass has to hold the right one",
		"3D000": "there is no such database: make it with createdb",
		"42501": "the account may not do that: it needs CREATE on the database, or a schema of its own",
		"53300": "the server has no connection left: raise max_connections, or lower pool_max_conns",
		"25006": "the server only reads: it is a standby; name all servers in the address, with target_session_attrs=read-write",
	}
	for _, code := range slices.Sorted(maps.Keys(hints)) {
		if coded(err, code) {
			return fmt.Errorf("%s: %w", hints[code], err)
		}
	}
	return err
}
