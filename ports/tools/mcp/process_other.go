//go:build !unix

package mcp

import "os/exec"

// Without groups of processes, only the process itself is ended.
func group(*exec.Cmd)         {}
func termGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
