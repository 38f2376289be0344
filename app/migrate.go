package app

import (
	"context"

	"github.com/spf13/cobra"

	"pawl/store/postgres"
)

// migrated answers migrate.
type migrated struct {
	Store   string   `json:"store"`
	Pending []string `json:"pending"` // statements that had to be, or would be, carried out
	DryRun  bool     `json:"dryRun,omitempty"`
}

func (c *call) migrateCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring a store up to date before anybody works on it", Args: exactly(),
		Long: "Bring a store up to date. Every command does that by itself when it opens a store; this is for those who want to see\n" +
			"the statements first (--dry-run, Postgres only), or to have it done once by somebody who may change tables.",
		RunE: c.does(func(cmd *cobra.Command, _ []string) error { return c.migrate(cmd.Context(), dry) }),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would be done, as SQL")
	return cmd
}

func (c *call) migrate(ctx context.Context, dry bool) error {
	name := c.conf.value("store")
	k, rest, err := kindOf(name)
	if err != nil {
		return err
	}
	m := migrated{Store: masked(name), Pending: []string{}, DryRun: dry}
	switch {
	case k.scheme == "postgres" || k.scheme == "postgresql":
		pending, err := postgres.Pending(ctx, "postgres:"+rest, postgres.Options{})
		if err != nil {
			return opening(k, err)
		}
		m.Pending = append(m.Pending, pending...)
	case dry:
		return invalid("--dry-run: the statements of a store %s are not known before they run: take a copy with %s first", k.scheme, c.again("backup", "FILE"))
	}
	if !dry {
		if err := c.openStore(ctx); err != nil {
			return err
		}
	}
	switch {
	case c.json:
		c.out.document(m)
	case dry && len(m.Pending) > 0:
		for _, statement := range m.Pending {
			c.out.line("%s", statement)
		}
	default:
		c.say.line("the store is up to date")
	}
	return nil
}
