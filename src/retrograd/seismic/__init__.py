"""Seismic full-waveform inversion: models, acquisition, waves, misfit and its gradient.

Velocities are in km/s, lengths in metres, times in milliseconds, frequencies in Hz.
"""

from retrograd.seismic.acquisition import Acquisition, ricker, surface_acquisition
from retrograd.seismic.elastic import ElasticPropagator, elastic_stable_dt_ms
from retrograd.seismic.elastic_model import ElasticModel, load_elastic_npz
from retrograd.seismic.keep_all import KeepAllRun
from retrograd.seismic.misfit import L2, Misfit
from retrograd.seismic.models import VelocityModel, load_npz, marmousi
from retrograd.seismic.propagator import Propagator
from retrograd.seismic.scheme import Scheme, resolved_frequency_hz, stable_dt_ms
from retrograd.seismic.shots import Run, ShotGradient, shot_gradient, simulate
from retrograd.seismic.smoothing import smoothed

__all__ = [
    "L2",
    "Acquisition",
    "ElasticModel",
    "ElasticPropagator",
    "KeepAllRun",
    "Misfit",
    "Propagator",
    "Run",
    "Scheme",
    "ShotGradient",
    "VelocityModel",
    "elastic_stable_dt_ms",
    "load_elastic_npz",
    "load_npz",
    "marmousi",
    "resolved_frequency_hz",
    "ricker",
    "shot_gradient",
    "simulate",
    "smoothed",
    "stable_dt_ms",
    "surface_acquisition",
]
