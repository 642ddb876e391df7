package fakenode

import (
	"errors"
	"strings"
)

var errQuote = errors.New("a quote is not closed")

// scanner splits a script into statements of words. It knows quoting, comments, line continuation and
// here-documents, not expansion: "$NAME" stays as it is.
type scanner struct {
	text       string
	at         int
	statements [][]string
	words      []string
	word       strings.Builder
	inWord     bool
}

// shellStatements splits a shell script. After an error the statements before it are still good.
func shellStatements(text string) ([][]string, error) {
	s := &scanner{text: strings.ReplaceAll(text, "\r", "")}
	var delimiters []string // of here-documents that begin on the next line
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '\\':
			if s.at < len(s.text) && s.text[s.at] != '\n' {
				s.putByte(s.text[s.at])
			}
			s.at++
		case c == '\'' || c == '"':
			if !s.readQuoted(c, '\\', c == '"', false) {
				return s.statements, errQuote
			}
		case c == '#' && !s.inWord:
			s.skipLine()
		case c == '<' && strings.HasPrefix(s.text[s.at:], "<") && !strings.HasPrefix(s.text[s.at:], "<<"):
			s.at++
			delimiters = append(delimiters, s.readDelimiter())
		case c == '\n':
			s.endStatement()
			s.skipHereDocuments(delimiters)
			delimiters = nil
		case c == ';' || c == '&' || c == '|' || c == '(' || c == ')':
			s.endStatement()
		case c == ' ' || c == '\t':
			s.endWord()
		default:
			s.putByte(c)
		}
	}
	s.endStatement()
	return s.statements, nil
}

// powershellStatements does the same for PowerShell.
func powershellStatements(text string) ([][]string, error) {
	s := &scanner{text: strings.ReplaceAll(text, "\r", "")}
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '`':
			if s.at < len(s.text) && s.text[s.at] != '\n' {
				s.putByte(s.text[s.at])
			}
			s.at++
		case c == '\'' || c == '"':
			if !s.readQuoted(c, '`', c == '"', true) {
				return s.statements, errQuote
			}
		case c == '#' && !s.inWord:
			s.skipLine()
		case c == '\n' || c == ';' || c == '|':
			s.endStatement()
		case c == ' ' || c == '\t':
			s.endWord()
		default:
			s.putByte(c)
		}
	}
	s.endStatement()
	return s.statements, nil
}

func (s *scanner) putByte(c byte) {
	s.word.WriteByte(c)
	s.inWord = true
}

// readQuoted reads up to the closing quote and says whether there is one.
func (s *scanner) readQuoted(quote, escape byte, escapes, doubled bool) bool {
	s.inWord = true
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == quote && doubled && s.at < len(s.text) && s.text[s.at] == quote:
			s.putByte(quote)
			s.at++
		case c == quote:
			return true
		case c == escape && escapes && s.at < len(s.text):
			next := s.text[s.at]
			s.at++
			if escape == '\\' && next == '\n' {
				continue
			}
			if escape == '\\' && !strings.ContainsRune("\\\"$`", rune(next)) {
				s.putByte(escape)
			}
			s.putByte(next)
		default:
			s.putByte(c)
		}
	}
	return false
}

func (s *scanner) endWord() {
	if s.inWord {
		s.words = append(s.words, s.word.String())
		s.word.Reset()
		s.inWord = false
	}
}

func (s *scanner) endStatement() {
	s.endWord()
	if len(s.words) > 0 {
		s.statements = append(s.statements, s.words)
		s.words = nil
	}
}

func (s *scanner) skipLine() {
	if n := strings.IndexByte(s.text[s.at:], '\n'); n >= 0 {
		s.at += n
	} else {
		s.at = len(s.text)
	}
}

// readDelimiter reads the word that ends a here-document.
func (s *scanner) readDelimiter() string {
	rest := strings.TrimLeft(strings.TrimPrefix(s.text[s.at:], "-"), " \t")
	end := strings.IndexAny(rest, " \t\n;&|<>)")
	if end < 0 {
		end = len(rest)
	}
	s.at = len(s.text) - len(rest) + end
	return strings.Trim(rest[:end], `'"\`)
}

func (s *scanner) skipHereDocuments(delimiters []string) {
	for _, d := range delimiters {
		for s.at < len(s.text) {
			start := s.at
			s.skipLine()
			line := s.text[start:s.at]
			s.at = min(s.at+1, len(s.text))
			if strings.TrimLeft(line, "\t") == d {
				break
			}
		}
	}
}
