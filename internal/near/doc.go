// Package near finds the word that was probably meant by a mistyped one.
//
// It is pure and knows no words of its own. Start reading at Nearest and Hint.
package near
