package top

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// terminalRole makes this binary show the view when a test runs it again, in a terminal of its own.
const terminalRole = "DOVETAIL_TOP_TEST_TERMINAL"

func TestMain(m *testing.M) {
	if os.Getenv(terminalRole) == "" {
		os.Exit(m.Run())
	}
	err := Run(context.Background(), panicking{serviceOf(mixed(30))}, Options{Timeout: time.Minute, In: os.Stdin, Out: os.Stdout, Environment: os.Environ()})
	if err != nil {
		fmt.Println("ERROR", err)
		os.Exit(1)
	}
	fmt.Println("BYE")
	os.Exit(0)
}

// panicking panics when something is to be explained.
type panicking struct{ *fakeService }

func (panicking) Explain(context.Context, inspect.Subject) (inspect.Explanation, error) {
	panic("explained too much")
}

// However the view ends, the terminal is as it was: its modes, its screen and its cursor.
func TestTV_15_TheTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		keys   string
		signal syscall.Signal
		want   string // the last words
		code   int
	}{
		"TV-15: q":                              {keys: "q", want: "BYE"},
		"TV-15: Ctrl-C":                         {keys: "\x03", want: "BYE"},
		"TV-15: SIGTERM":                        {signal: syscall.SIGTERM, want: "BYE"},
		"TV-15: SIGINT":                         {signal: syscall.SIGINT, want: "BYE"},
		"TV-15: a panic":                        {keys: "\r", want: "explained too much", code: 1},
		"TV-15: Ctrl-C while a filter is typed": {keys: "/qqq\x03", want: "BYE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openTerminal(t)
			c.await(t, "ip-10-0-0-1")
			if c.modes(t).Lflag&syscall.ICANON != 0 {
				t.Fatal("the terminal is not in raw mode while the view is shown: this test shows nothing")
			}
			if tc.signal != 0 {
				c.signal(t, tc.signal)
			}
			c.write(t, tc.keys)
			code := c.wait(t)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if got := c.modes(t); got != c.before {
				t.Errorf("the modes of the terminal were %+v, and are %+v", c.before, got)
			}
			shown := c.text()
			for _, sequence := range []string{"\x1b[?1049l", "\x1b[?25h"} { // main screen, cursor
				if !strings.Contains(shown, sequence) {
					t.Errorf("the screen is not restored by %q", sequence)
				}
			}
			if _, after, _ := strings.Cut(shown, "\x1b[?1049l"); !strings.Contains(after, tc.want) {
				t.Errorf("after the view, %q is not on the screen: %q", tc.want, after)
			}
		})
	}
}

// States and the selected row can be told without colors.
func TestTV_13_WithoutColors(t *testing.T) {
	t.Parallel()
	colors := regexp.MustCompile(`\x1b\[([0-9;]*;)?3[0-7]m`)
	for environment, want := range map[string]bool{"COLORTERM=": true, "NO_COLOR=1": false} {
		t.Run(environment, func(t *testing.T) {
			t.Parallel()
			c := openTerminal(t, environment)
			c.await(t, "ip-10-0-0-20")
			c.write(t, "q")
			c.wait(t)
			if got := colors.MatchString(c.text()); got != want {
				t.Errorf("colors: %v, want %v: %q", got, want, c.text())
			}
			for _, text := range []string{"›", "Launching", "Removing", "[1 Nodes 30]"} {
				if !strings.Contains(c.text(), text) {
					t.Errorf("%q is not on the screen: %q", text, c.text())
				}
			}
		})
	}
}

// terminal is a pseudo-terminal with this binary in it.
type terminal struct {
	control *os.File
	command *exec.Cmd
	before  syscall.Termios
	ended   chan struct{}

	lock  sync.Mutex
	shown bytes.Buffer
	grown chan struct{}
}

// openTerminal shows the view, with these variables in its environment.
func openTerminal(t *testing.T, environment ...string) *terminal {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal can be opened: %v", err)
	}
	t.Cleanup(func() { _ = control.Close() })
	var unlocked, number uint32
	ioctl(t, control, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	ioctl(t, control, syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := [4]uint16{24, 80}
	ioctl(t, control, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	c := &terminal{control: control, ended: make(chan struct{}), grown: make(chan struct{}, 1)}
	c.before = c.modes(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.command = exec.CommandContext(t.Context(), program)
	c.command.Env = append([]string{terminalRole + "=1", "TERM=xterm-256color"}, environment...)
	c.command.Stdin, c.command.Stdout, c.command.Stderr = tty, tty, tty
	c.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read()
	return c
}

// read collects what the program shows until it has ended.
func (c *terminal) read() {
	defer close(c.ended)
	part := make([]byte, 1<<16)
	for {
		n, err := c.control.Read(part)
		if err != nil { // no process has the terminal open any more
			return
		}
		c.lock.Lock()
		c.shown.Write(part[:n])
		c.lock.Unlock()
		select {
		case c.grown <- struct{}{}:
		default:
		}
	}
}

func (c *terminal) text() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.shown.String()
}

// await waits until text has been shown.
func (c *terminal) await(t *testing.T, text string) {
	t.Helper()
	guard := time.After(time.Minute)
	for !strings.Contains(c.text(), text) {
		select {
		case <-c.grown:
		case <-c.ended:
			t.Fatalf("the program has ended without showing %q: %q", text, c.text())
		case <-guard:
			t.Fatalf("%q is not shown: %q", text, c.text())
		}
	}
}

func (c *terminal) write(t *testing.T, keys string) {
	t.Helper()
	if _, err := c.control.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func (c *terminal) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code.
func (c *terminal) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		t.Fatalf("the program does not end: %q", c.text())
	}
	_ = c.command.Wait() // the exit code says it
	return c.command.ProcessState.ExitCode()
}

func (c *terminal) modes(t *testing.T) syscall.Termios {
	t.Helper()
	var modes syscall.Termios
	ioctl(t, c.control, syscall.TCGETS, unsafe.Pointer(&modes))
	return modes
}

func ioctl(t *testing.T, file *os.File, request uintptr, value unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(value)); errno != 0 {
		t.Fatal(errno)
	}
}
