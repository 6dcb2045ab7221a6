//! The daemon's HTTP: routes, streams, who may ask, and what every error looks like.
