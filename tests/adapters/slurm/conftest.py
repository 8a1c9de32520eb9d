"""One real Slurm for the tests of a worker."""

from tests.labs.slurm_fixtures import connection, one_slurm, real  # noqa: F401
