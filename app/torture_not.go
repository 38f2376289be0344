//go:build !torture

package app

import "github.com/spf13/cobra"

// developer are the commands that only a developer's build has: none here.
func (c *call) developer() []*cobra.Command { return nil }
