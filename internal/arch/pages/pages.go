package pages

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	Page     string
	Line     int // of its first line of text
	Language string
	Note     string // the comment on the line before the fence, without its marks
	Text     string
}

// Notes of shell blocks.
const (
	needsAWS = "needs AWS: "
	runBy    = "run by: "
	// Refused is the note of a block whose last command must fail.
	Refused = "the last command is refused"
	// Examples is the note of a block that sets variables to values which readers replace by their own.
	Examples = "example values"
)

var (
	fence   = regexp.MustCompile("^\\s*```(\\w*)")
	comment = regexp.MustCompile(`^\s*<!-- (.*) -->\s*$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("`[^`]*`")
)

// Blocks returns the fenced blocks of a page.
func Blocks(page, text string) []Block {
	var blocks []Block
	var open *Block
	note := ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open = &Block{Page: page, Line: number + 1, Language: m[1], Note: note}
		case m != nil:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.Text += line
		}
		note = ""
		if m := comment.FindStringSubmatch(line); m != nil {
			note = m[1]
		}
	}
	return blocks
}

// Shell reports whether the block holds commands.
func (b Block) Shell() bool {
	return b.Language == "sh" || b.Language == "console" || b.Language == "bash"
}

// Runs reports whether sandbox/docs runs the block.
func (b Block) Runs() bool {
	return b.Shell() && !strings.HasPrefix(b.Note, needsAWS) && !strings.HasPrefix(b.Note, runBy)
}

// Test is the folder and the name of the test that a note names.
func (b Block) Test() (dir, name string, found bool) {
	rest, found := strings.CutPrefix(b.Note, runBy)
	dir, name, _ = strings.Cut(rest, " ")
	return dir, name, found
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Command is what is typed, and the lines that the page shows as its output.
type Command struct {
	Typed string
	Shown []string
}

// Commands splits a block of language console, where commands begin with a dollar sign. Other blocks, and those without
// such a sign, are one command.
func (b Block) Commands() []Command {
	if b.Language != "console" || !strings.Contains("\n"+b.Text, "\n$ ") {
		return []Command{{Typed: b.Text}}
	}
	var commands []Command
	continued := false
	for line := range strings.Lines(b.Text) {
		typed, begins := strings.CutPrefix(line, "$ ")
		switch {
		case begins:
			commands = append(commands, Command{Typed: typed})
		case len(commands) == 0:
			continue
		case continued:
			commands[len(commands)-1].Typed += line
		default:
			last := &commands[len(commands)-1]
			last.Shown = append(last.Shown, strings.TrimRight(line, "\n"))
			continue
		}
		continued = strings.HasSuffix(strings.TrimRight(line, "\n"), "\\")
	}
	return commands
}

// Links returns the targets of the links of a page, without those in code.
func Links(text string) []string {
	var targets []string
	var blocked bool
	for line := range strings.Lines(text) {
		if fence.MatchString(line) {
			blocked = !blocked
		}
		if blocked {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// Written returns the pages below root that people write commands on for readers: README.md, tutorials and how-to.
func Written(root fs.FS) ([]string, error) {
	names := []string{"README.md"}
	for _, pattern := range []string{"docs/tutorials/*.md", "docs/how-to/*.md"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	return names, nil
}
