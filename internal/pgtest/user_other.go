//go:build !unix

package pgtest

import "os/exec"

func own(string) error { return nil }

func lower(*exec.Cmd) error { return nil }

func apart(*exec.Cmd) {}
