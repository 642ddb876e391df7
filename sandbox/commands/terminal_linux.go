package commands

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a program in a terminal may take for what is waited for.
const patience = time.Minute

// Terminal is a pseudo-terminal of 160 columns and 40 lines with a command in it.
type Terminal struct {
	t       *testing.T
	control *os.File
	command *exec.Cmd
	before  unix.Termios
	ended   chan struct{}

	mu    sync.Mutex
	shown bytes.Buffer
	grown chan struct{}
}

// Open runs dovetail in a terminal of its own.
func (u *User) Open(t *testing.T, args ...string) *Terminal {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no pseudo-terminal can be opened: %v", err)
	}
	t.Cleanup(func() { _ = control.Close() }) // whether or not the program has ended
	fd := int(control.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 160})
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tty.Close() }() // the program has its own
	c := &Terminal{t: t, control: control, command: u.Command(t, args...), ended: make(chan struct{}), grown: make(chan struct{}, 1)}
	c.before = c.modes()
	c.command.Env = append(c.command.Env, "TERM=xterm-256color")
	c.command.Stdin, c.command.Stdout, c.command.Stderr = tty, tty, tty
	c.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read()
	return c
}

// read collects what the program shows until no process has the terminal open any more.
func (c *Terminal) read() {
	defer close(c.ended)
	part := make([]byte, 1<<16)
	for {
		n, err := c.control.Read(part)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.shown.Write(part[:n])
		c.mu.Unlock()
		select {
		case c.grown <- struct{}{}:
		default: // it was told already
		}
	}
}

func (c *Terminal) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

// Await waits until a text has been shown.
func (c *Terminal) Await(text string) {
	c.t.Helper()
	guard := time.After(patience)
	for !strings.Contains(c.text(), text) {
		select {
		case <-c.grown:
		case <-c.ended:
			c.t.Fatalf("the program has ended without showing %q: %q", text, c.text())
		case <-guard:
			c.t.Fatalf("%q is not shown: %q", text, c.text())
		}
	}
}

// Press presses keys.
func (c *Terminal) Press(keys string) {
	c.t.Helper()
	if _, err := c.control.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// Raw reports whether keys reach the program one by one, and not as lines.
func (c *Terminal) Raw() bool { return c.modes().Lflag&unix.ICANON == 0 }

// Clean waits until the program has ended, and checks that it succeeded and left the terminal as it was: its modes, the main
// screen and the cursor.
func (c *Terminal) Clean() {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatalf("the program does not end: %q", c.text())
	}
	_ = c.command.Wait() // the exit code says it
	if code := c.command.ProcessState.ExitCode(); code != 0 {
		c.t.Errorf("exit code %d: %q", code, c.text())
	}
	if now := c.modes(); now != c.before {
		c.t.Errorf("the modes of the terminal were %+v, and are %+v", c.before, now)
	}
	for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l"} { // screen, cursor, brackets around pasted text
		if shown := c.text(); strings.LastIndex(shown, on) > strings.LastIndex(shown, off) {
			c.t.Errorf("%q is not undone by %q", on, off)
		}
	}
}

func (c *Terminal) modes() unix.Termios {
	c.t.Helper()
	modes, err := unix.IoctlGetTermios(int(c.control.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	return *modes
}
