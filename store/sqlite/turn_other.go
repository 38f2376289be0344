//go:build !unix

package sqlite

import (
	"os"
	"time"
)

// Without file locks of the kind, a writer gives way for a moment before each commit, which is slower but lets others in.
func (t turnstile) take() error { return nil }

func (t turnstile) pass() { time.Sleep(time.Millisecond) }

const noFollow = 0

const renamesOpen = false

func syncFolder(string) error { return nil }

func entrust(*os.File, os.FileInfo) {}
