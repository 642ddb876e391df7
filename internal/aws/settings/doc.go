// Package settings holds the settings that AWS adds to those of the core: their names, defaults, meaning and limits.
//
// Section is the table as internal/config reads it, and AWS is what it becomes. The driver of AWS contributes the one, and
// takes the other out of the Config that it is connected with, by Of.
//
// Not here: settings that do not depend on the cloud (internal/config). Start reading at Section.
package settings
