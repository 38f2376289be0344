//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is whom a server runs as: root is refused by Postgres, and is another one then.
func account() (uid, gid int, err error) {
	if os.Getuid() != 0 {
		return os.Getuid(), os.Getgid(), nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return uid, gid, errors.Join(err, err2)
	}
	return 0, 0, errors.New("running as root, and there is no other account for Postgres")
}

// own gives a folder to that account.
func own(dir string) error {
	uid, gid, err := account()
	if err != nil || os.Getuid() != 0 {
		return err
	}
	return os.Chown(dir, uid, gid)
}

// lower has a program run as that account.
func lower(cmd *exec.Cmd) error {
	uid, gid, err := account()
	if err != nil || os.Getuid() != 0 {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return nil
}

// apart keeps signals to the group of the tests away from a program.
func apart(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}
