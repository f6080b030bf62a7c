//! End-to-end journeys
