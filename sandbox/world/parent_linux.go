package world

import (
	"os/exec"
	"syscall"
)

// endWithParent makes a process end when this one is killed.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
