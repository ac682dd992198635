"""How precisely parameters are estimated, and tests of them."""

from anchortm.inference.covariance import Bootstrap

__all__ = ["Bootstrap"]
