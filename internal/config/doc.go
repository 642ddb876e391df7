// Package config holds the settings of the controller: their names, defaults, meaning and limits. One table drives all of it:
// flags, environment variables, validation, help and reference page.
//
// The table has the settings of the core, and those that a cloud adds in a Section; what they become is in Config.Cloud, and
// only the driver of the cloud knows its type. A flag wins over its environment variable, which wins over the default. An
// empty variable counts as not set. All faults are found in one go and returned as one Error.
//
// Not here: reading the process environment, clocks, logging; the caller passes what is needed in. Nor settings of a cloud
// (internal/aws/settings). Start reading at Bind and Loader.Load; Settings lists the table for documentation.
package config
