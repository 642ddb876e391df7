package containers

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes a process end when this one is killed.
func EndWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
